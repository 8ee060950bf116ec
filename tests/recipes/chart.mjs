// Reads the chart of each page, and prints its content.
//   chart.mjs FOLDER_WITH_NODE_MODULES CHROMIUM PAGE...
import { withPage } from "./chromium.mjs";

await withPage(async (page, ...urls) => {
  const seen = [];
  for (const url of urls) {
    await page.goto(url);
    await page.waitForFunction(() => document.querySelector("h1").textContent !== "Loading …");
    seen.push(await page.evaluate(() => ({
      title: document.querySelector("h1").textContent,
      path: document.querySelector("path")?.getAttribute("d") ?? null,
      labels: [...document.querySelectorAll("text")].map((text) => text.textContent),
    })));
  }
  return seen;
});
