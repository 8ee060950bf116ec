// Watches the page of the most played islands in headless Chromium, whose clock is moved on, and prints as JSON what
// it shows at first, ten minutes later, after a publish, and after it was hidden for an hour.
//   most_played.mjs FOLDER_WITH_NODE_MODULES CHROMIUM PAGE [SERVER COMMAND...]
// COMMAND publishes new data to SERVER. Without it, only the first state is printed.
import { execFileSync } from "node:child_process";

import { withPage } from "./chromium.mjs";

await withPage(async (page, url, server, ...command) => {
  const published = async () => (await (await fetch(`${server}/v1/health`)).json()).lastPublish;
  let requests = 0;
  page.on("request", (request) => { requests += request.url().endsWith("/v1/live"); });
  await page.clock.install();
  await page.goto(url);
  await page.waitForFunction(() => document.querySelector("#status").textContent !== "Loading …");

  const state = async () => ({
    status: await page.textContent("#status"),
    islands: await page.locator("#islands li").allTextContents(),
  });
  // Moves the clock on, and waits for the refresh that this causes.
  async function later(minutes) {
    const answer = page.waitForResponse((one) => one.url().endsWith("/v1/live"));
    await page.clock.fastForward(minutes * 60_000);
    await (await answer).finished();
    await page.waitForTimeout(200);
    return state();
  }
  const hide = (hidden) => page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, value: hidden });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);

  const seen = [await state()];
  if (command.length) {
    seen.push(await later(10));
    const before = await published();
    execFileSync(command[0], command.slice(1), { stdio: "ignore" });
    while (await published() === before) await new Promise((done) => setTimeout(done, 100));
    seen.push(await later(10));
    await hide(true);
    const sent = requests;
    await page.clock.fastForward(60 * 60_000);
    await page.waitForTimeout(200);
    if (requests !== sent) throw new Error("the hidden page has sent a request");
    const answer = page.waitForResponse((one) => one.url().endsWith("/v1/live"));
    await hide(false);
    await (await answer).finished();
    seen.push(await state());
  }
  return seen;
});
