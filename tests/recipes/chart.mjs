// Reads the chart of each page in headless Chromium, and prints its content as JSON.
//   chart.mjs FOLDER_WITH_NODE_MODULES CHROMIUM PAGE...
import { createRequire } from "node:module";

const [folder, executablePath, ...pages] = process.argv.slice(2);
const { chromium } = createRequire(`${folder}/package.json`)("playwright-core");

// Builds run as root, for which Chromium has no sandbox; the page is our own.
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(15_000);
  const seen = [];
  for (const url of pages) {
    await page.goto(url);
    await page.waitForFunction(() => document.querySelector("h1").textContent !== "Loading …");
    seen.push(await page.evaluate(() => ({
      title: document.querySelector("h1").textContent,
      path: document.querySelector("path")?.getAttribute("d") ?? null,
      labels: [...document.querySelectorAll("text")].map((text) => text.textContent),
    })));
  }
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
