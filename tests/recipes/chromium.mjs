// A page in headless Chromium for the checks of recipes. Prints as JSON what `use` returns.
//   SCRIPT FOLDER_WITH_NODE_MODULES CHROMIUM ...
import { createRequire } from "node:module";

const [folder, executablePath, ...words] = process.argv.slice(2);
const { chromium } = createRequire(`${folder}/package.json`)("playwright-core");

export const withPage = async use => {
  // Builds run as root, for which Chromium has no sandbox; the page is our own.
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    const page = await browser.newPage();
    page.setDefaultTimeout(15_000);
    console.log(JSON.stringify(await use(page, ...words)));
  } finally {
    await browser.close();
  }
};
