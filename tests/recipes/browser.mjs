// Uses the browser recipe like a visitor, and prints the text of the page.
//   browser.mjs FOLDER_WITH_NODE_MODULES CHROMIUM PAGE KEY
import { withPage } from "./chromium.mjs";

await withPage(async (page, url, key) => {
  await page.goto(url);
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
  return { ...seen, wrong: await click("#header", "nonsense") };
});
