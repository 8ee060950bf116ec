// Uses the browser recipe like a visitor, in headless Chromium, and prints the text of the page as JSON.
//   browser.mjs FOLDER_WITH_NODE_MODULES CHROMIUM PAGE KEY
import { createRequire } from "node:module";

const [folder, executablePath, page_url, key] = process.argv.slice(2);
const { chromium } = createRequire(`${folder}/package.json`)("playwright-core");

// Builds run as root, for which Chromium has no sandbox; the page is our own.
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(15_000);
  await page.goto(page_url);

  async function click(button, value) {
    await page.fill("#key", value);
    await page.evaluate(() => { document.querySelector("#quota").textContent = "asking"; });
    await page.click(button);
    await page.waitForFunction(() => document.querySelector("#quota").textContent !== "asking");
    return { quota: await page.textContent("#quota"), islands: await page.locator("#islands li").allTextContents() };
  }

  const seen = {
    anonymous: await click("#query", ""),
    query: await click("#query", key),
    header: await click("#header", key),
  };
  await click("#header", key);
  seen.wrong = await click("#header", "nonsense");
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
