// Uses every page in headless Chromium; one line for each claim that holds, and an end at the first that does not.
import assert from "node:assert/strict";

import { BY_IP, BY_MAIL, claim, close, json, left, open, sound } from "./browser.mjs";

const WIDTHS = [360, 1280];

const island = (await json(`${BY_IP}/v1/islands?limit=1`)).islands[0];
const before = await left();

const PAGES = [
  ["dashboard", `${BY_IP}/`],
  ["search", `${BY_IP}/?q=a`],
  ["nothing-found", `${BY_IP}/?q=no%20such%20title%20%3Cb%3E`],
  ["island", `${BY_IP}/islands/${island.code}`],
  ["docs", `${BY_IP}/docs`],
  ["objects", `${BY_IP}/objects`],
  ["recipes", `${BY_IP}/recipes`],
  ["gotchas", `${BY_IP}/gotchas`],
  ["keys-ip", `${BY_IP}/keys`],
  ["keys-mail", `${BY_MAIL}/keys`],
];
for (const colorScheme of ["light", "dark"]) {
  for (const width of WIDTHS) {
    for (const [name, url] of PAGES) {
      await claim(`${name} at ${width} px, ${colorScheme}`, async () => {
        const opened = await open({ viewport: { width, height: 800 }, colorScheme });
        const answer = await opened.page.goto(url);
        assert.equal(answer.status(), 200);
        await sound(opened, name, { colorScheme });
        await opened.context.close();
      });
    }
  }
}

await claim("pages spend nothing", async () => assert.equal(await left(), before));

await claim("the reference with style and script has at most 25 KB", async () => {
  const parts = ["docs", "assets/style.css", "assets/docs.js", "assets/icon.svg"];
  const sizes = await Promise.all(parts.map(async part => (await (await fetch(`${BY_IP}/${part}`)).arrayBuffer()).byteLength));
  const all = sizes.reduce((sum, size) => sum + size);
  console.log(`   ${all} bytes: ${sizes.join(" + ")}`);
  assert.ok(all <= 25_000, String(all));
});

await claim("the curve shows the served points", async () => {
  const { page, context } = await open();
  await page.goto(`${BY_IP}/`);
  const svg = page.locator("figure.chart svg").first();
  const { points } = await json(`${BY_IP}/v1/live/intraday`);
  const { max, left: x0, width, top, height } = await svg.evaluate(svg => ({ ...svg.dataset }));
  const [first, last] = [points[0][0], points.at(-1)[0]];
  const drawn = await svg.locator(".curve").getAttribute("d");
  const seen = [...drawn.matchAll(/[ML]([\d.]+) ([\d.]+)/g)].map(match => match.slice(1).map(Number));
  assert.equal(seen.length, points.length);
  points.forEach(([time, players], at) => {
    const x = +x0 + (time - first) / (last - first) * width;
    const y = +top + height * (1 - players / max);
    assert.ok(Math.abs(seen[at][0] - x) < 0.06 && Math.abs(seen[at][1] - y) < 0.06, `point ${at}`);
  });
  const box = await svg.boundingBox();
  await page.mouse.move(box.x + box.width - 12, box.y + 50);
  const told = await page.locator("figure.chart output").first().textContent();
  assert.ok(told.includes(points.at(-1)[1].toLocaleString("en")), told);
  await svg.focus();
  await page.keyboard.press("ArrowLeft");
  const beside = await page.locator("figure.chart output").first().textContent();
  assert.ok(beside.includes(points.at(-2)[1].toLocaleString("en")), beside);
  await context.close();
});

await claim("the dashboard has the ten of the ranking, and leads to their pages", async () => {
  const { page, context } = await open();
  await page.goto(`${BY_IP}/`);
  const { ranking } = await json(`${BY_IP}/v1/rankings/latest`);
  const rows = await page.locator("#summary tbody tr, #summary table tr:has(td)").allTextContents();
  assert.equal(rows.length, ranking.length);
  ranking.forEach((entry, at) => {
    for (const part of [entry.title, entry.peakCCU.toLocaleString("en")]) assert.ok(rows[at].includes(part), rows[at]);
  });
  await page.click("#summary table a");
  assert.equal(await page.textContent("h1"), ranking[0].title);
  const { ccu } = await json(`${BY_IP}/v1/islands/${ranking[0].code}/ccu`);
  const values = (await page.locator("svg").first().getAttribute("data-values")).split(",").filter(Boolean);
  assert.deepEqual(values.map(Number), ccu.map(([, peak]) => peak));
  assert.equal(await page.evaluate(() => document.querySelector("time.ago").textContent.endsWith("ago")), true);
  await context.close();
});

await claim("a search finds what the API finds, page by page", async () => {
  const { page, context } = await open();
  await page.goto(`${BY_IP}/`);
  await page.fill("#q", "ra");
  await page.keyboard.press("Enter");
  await page.waitForURL(/q=ra/);
  const seen = [];
  for (;;) {
    seen.push(...await page.locator("td:first-child a").evaluateAll(links => links.map(link => link.href.slice(-14))));
    const next = page.locator("a[rel=next]");
    if (await next.count() === 0) break;
    await next.click();
  }
  const wanted = [];
  for (let offset = 0, more = true; more; offset += 200) {
    const { islands, meta } = await json(`${BY_IP}/v1/islands?q=ra&limit=200&offset=${offset}`);
    wanted.push(...islands.map(island => island.code));
    more = meta.hasMore;
  }
  assert.ok(wanted.length > 50, "a search of more than one page");
  assert.deepEqual(seen, wanted);
  await context.close();
});

await import("./reference.mjs");
await import("./sign_up.mjs");
await close();
