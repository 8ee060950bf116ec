// Uses every page in headless Chromium; prints each claim that is true, and ends at the first that is not.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";

import { BY_IP, BY_MAIL, CLOSED, brokenDates, claim, close, json, left, sound } from "./browser.mjs";

const WIDTHS = [360, 1280];

const island = (await json(`${BY_IP}/v1/islands?limit=1`)).islands[0];
const quota = await left("198.18.0.0");

const PAGES = [
  ["dashboard", `${BY_IP}/`],
  ["islands", `${BY_IP}/islands?tag=pvp&sort=plays`],
  ["nothing-found", `${BY_IP}/islands?q=no%20such%20title%20%3Cb%3E`],
  ["island", `${BY_IP}/islands/${island.code}`],
  ["island-retention", `${BY_IP}/islands/${island.code}?metric=retentionD1`],
  ["creators", `${BY_IP}/creators`],
  ["creator", `${BY_IP}/creators/${encodeURIComponent(island.creator)}`],
  ["ranking", `${BY_IP}/rankings`],
  ["new", `${BY_IP}/new`],
  ["live", `${BY_IP}/live`],
  ["docs", `${BY_IP}/docs`],
  ["objects", `${BY_IP}/objects`],
  ["recipes", `${BY_IP}/recipes`],
  ["gotchas", `${BY_IP}/gotchas`],
  ["changelog", `${BY_IP}/changelog`],
  ["dumps", `${BY_IP}/dumps/`],
  ["not-found", `${BY_IP}/nothing`, 404],
  ["keys-closed", `${CLOSED}/keys`],
  ["keys-ip", `${BY_IP}/keys`],
  ["keys-mail", `${BY_MAIL}/keys`],
];
for (const colorScheme of ["light", "dark"]) {
  for (const width of WIDTHS) {
    for (const [name, url, status = 200] of PAGES) {
      await claim(`${name} at ${width} px, ${colorScheme}`, { viewport: { width, height: 800 }, colorScheme }, async opened => {
        const answer = await opened.page.goto(url);
        assert.equal(answer.status(), status);
        // The browser logs every 404.
        if (status === 404) opened.complaints.length = 0;
        await sound(opened, name, { colorScheme });
        assert.equal(await left(opened.address), quota, `${name} spends quota`);
      });
    }
  }
}

await claim("the reference with styles, scripts and icon has at most 30 KB compressed", {}, async () => {
  const parts = ["docs", "assets/style.css", "assets/docs.css", "assets/site.js", "assets/docs.js", "assets/icon.svg"];
  const size = part => execFileSync("curl", ["-s", "-H", "Accept-Encoding: gzip", `${BY_IP}/${part}`]).length;
  const sizes = parts.map(size);
  const all = sizes.reduce((sum, size) => sum + size);
  console.log(`   ${all} bytes: ${sizes.join(" + ")}`);
  assert.ok(all <= 30_000, String(all));
});

await claim("the curve shows the served points, and the page how old they are", {}, async ({ page }) => {
  await page.goto(`${BY_IP}/`);
  assert.match(await page.textContent("time.ago"), / ago$|^just now$/);
  const svg = page.locator("figure.chart > svg").first();
  const { points } = await json(`${BY_IP}/v1/live/intraday`);
  const max = await svg.getAttribute("data-max");
  const [first, last] = [points[0][0], points.at(-1)[0]];
  const drawn = await svg.locator(".curve").getAttribute("d");
  const seen = [...drawn.matchAll(/[ML]([\d.]+) ([\d.]+)/g)].map(match => match.slice(1).map(Number));
  assert.equal(seen.length, points.length);
  points.forEach(([time, players], at) => {
    const x = (time - first) / (last - first) * 100;
    const y = 100 * (1 - players / max);
    assert.ok(Math.abs(seen[at][0] - x) < 0.006 && Math.abs(seen[at][1] - y) < 0.006, `point ${at}`);
  });
  const box = await svg.boundingBox();
  await page.mouse.move(box.x + box.width - 1, box.y + 50);
  const told = await page.locator("figure.chart output").first().textContent();
  assert.ok(told.includes(points.at(-1)[1].toLocaleString("en")), told);
  await svg.focus();
  await page.keyboard.press("ArrowLeft");
  const beside = await page.locator("figure.chart output").first().textContent();
  assert.ok(beside.includes(points.at(-2)[1].toLocaleString("en")), beside);
  const label = await svg.locator(".at text").textContent();
  assert.equal(`${label}.`, beside, "the label at the point");
  const [mark, curve] = await Promise.all([svg.locator(".at circle").boundingBox(), svg.boundingBox()]);
  assert.ok(mark.x > curve.x && mark.y > curve.y && mark.y < curve.y + curve.height, "the dot is in the picture");
  await page.keyboard.press("Home");
  assert.ok((await svg.locator(".at text").textContent()).includes(points[0][1].toLocaleString("en")));
  await page.keyboard.press("End");
  assert.ok((await svg.locator(".at text").textContent()).includes(points.at(-1)[1].toLocaleString("en")));
  await svg.blur();
  await page.mouse.move(box.x + 60, box.y + 50);
  await page.mouse.move(box.x + 60, box.y - 50);
  assert.ok((await page.locator("figure.chart output").first().textContent()).includes("highest"), "the description is back");
  assert.ok(!await svg.locator(".at").isVisible(), "the mark is gone");
});

await claim("the figures and the chart of an island are above the fold at 1280 x 900", { viewport: { width: 1280, height: 900 } }, async ({ page }) => {
  await page.goto(`${BY_IP}/islands/${island.code}`);
  const box = await page.locator("figure.chart > svg").boundingBox();
  assert.ok(box.y + box.height <= 900, `the chart ends at ${box.y + box.height}`);
  for (const name of ["Players now", "Peak of the day", "Highest known peak", "Rank by peak"]) {
    assert.ok(await page.locator("dt", { hasText: new RegExp(`^${name}$`) }).first().isVisible(), name);
  }
});

await claim("the chart of an island is at least 200 px high on a phone, and its range is kept without a script", { viewport: { width: 390, height: 844 }, javaScriptEnabled: false }, async ({ page }) => {
  await page.goto(`${BY_IP}/islands/${island.code}`);
  const box = await page.locator("figure.chart > svg").boundingBox();
  assert.ok(box.height >= 200, `${box.height} px`);
  await page.click("nav.tabs a:has-text('30 days')");
  await page.click("nav.tabs a:has-text('Plays')");
  assert.match(page.url(), /metric=plays&days=30/);
  await page.click("nav.tabs a:has-text('Peak players')");
  const values = await page.locator("svg[data-values]").getAttribute("data-values");
  assert.equal(values.split(",").length, 30);
});

for (const width of [360, 641, 700, 1280]) {
  const holds = `at ${width} px, times below a chart do not touch, tiles hold their texts, and dates have one line`;
  await claim(holds, { viewport: { width, height: 800 } }, async ({ page }) => {
    const urls = ["/", `/islands/${island.code}`, `/islands/${island.code}?days=30`].map(path => BY_IP + path);
    // The sample has 42 days.
    for (const url of [...urls, `${CLOSED}/islands/2708-3623-7025`]) {
      await page.goto(url);
      const gaps = await page.locator("figure.chart > svg > text[dy='20']:visible").evaluateAll(texts => {
        const boxes = texts.map(text => text.getBoundingClientRect());
        return boxes.slice(1).map((box, at) => box.left - boxes[at].right);
      });
      assert.ok(gaps.length > 0 && gaps.every(gap => gap >= 6), `${url} at ${width} px: ${gaps}`);
      const spilled = await page.locator(".tiles div").evaluateAll(tiles =>
        tiles.filter(tile => tile.scrollWidth > tile.clientWidth).map(tile => tile.textContent));
      assert.deepEqual(spilled, [], `${url} at ${width} px`);
      assert.deepEqual(await page.evaluate(brokenDates), [], `${url} at ${width} px`);
    }
  });
}

await claim("islands are filtered and sorted by the form, with the keyboard alone, without a script", { javaScriptEnabled: false }, async ({ page }) => {
  await page.goto(`${BY_IP}/islands`);
  await page.selectOption("select[name=tag]", "pvp");
  await page.selectOption("select[name=sort]", "plays");
  await page.focus("form.fields button");
  await page.keyboard.press("Enter");
  await page.waitForURL(/tag=pvp/);
  const seen = await page.locator("td.number + td > a").evaluateAll(links => links.map(link => link.href.slice(-14)));
  const { islands } = await json(`${BY_IP}/v1/islands?tag=pvp&sort=plays&limit=50`);
  assert.deepEqual(seen, islands.map(island => island.code));
  await page.click("th a:has-text('Minutes played')");
  assert.equal(await page.locator("th[aria-sort=descending]").textContent(), "Minutes played\u00a0▼");
  assert.ok(page.url().includes("tag=pvp"), "filters are kept");
});

await claim("an island's metrics, a creator and days are reached by links", {}, async ({ page }) => {
  await page.goto(`${BY_IP}/islands/${island.code}`);
  await page.click("nav.tabs a:has-text('Plays')");
  const { series } = (await json(`${BY_IP}/v1/islands/${island.code}`)).island;
  const values = (await page.locator("svg[data-values]").getAttribute("data-values")).split(",").filter(Boolean);
  assert.deepEqual(values.map(Number), series.map(point => point.plays).filter(plays => plays !== null));
  await page.locator("summary").click();
  assert.equal(await page.locator("details tbody tr").count(), values.length);
  await page.click(`a[href*="creators/"]`);
  assert.equal(await page.textContent("h1"), island.creator);
  await page.click("header a:has-text('Rankings')");
  const { days } = await json(`${BY_IP}/v1/rankings`);
  assert.ok((await page.textContent("h1")).includes(days[0]));
  await page.click("a[rel=prev]");
  assert.ok((await page.textContent("h1")).includes(days[1]));
  await page.click("a[rel=next]");
  await page.fill("#date", days[5]);
  await page.keyboard.press("Enter");
  await page.waitForURL(/date=/);
  assert.ok((await page.textContent("h1")).includes(days[5]));
});

await claim("the page of the header is marked, and what is not found offers a search", {}, async ({ page }) => {
  for (const path of ["islands", "creators", "live", "rankings", "new", "docs", "recipes", "keys", "dumps/"]) {
    await page.goto(`${BY_IP}/${path}`);
    const current = await page.locator("header [aria-current=page]").evaluateAll(links => links.map(link => link.href));
    assert.deepEqual(current, [`${BY_IP}/${path}`]);
    assert.ok(await page.locator("meta[name=description]").getAttribute("content"), path);
  }
  await page.goto(`${BY_IP}/islands?q=0000-0000`);
  assert.match(await page.textContent("main"), /A code must be complete/);
  await page.goto(`${BY_IP}/islands/0000-0000-0000`);
  await page.fill("#q", "ra");
  await page.keyboard.press("Enter");
  await page.waitForURL(/islands\?q=ra/);
});

for (const javaScriptEnabled of [true, false]) {
  await claim(`a page says that it renews itself: ${javaScriptEnabled}`, { javaScriptEnabled }, async ({ page }) => {
    await page.goto(`${BY_IP}/live`);
    assert.equal(await page.getByText("This page renews itself").isVisible(), javaScriptEnabled);
  });
}

await claim("the ranking explains its changes", {}, async ({ page }) => {
  await page.goto(`${BY_IP}/rankings`);
  const { previousDate } = await json(`${BY_IP}/v1/rankings/latest`);
  const text = await page.textContent("main");
  assert.ok(text.includes(`The change of rank is relative to ${previousDate}; – means`), text.slice(0, 300));
});

await claim("texts show no marks of Markdown", {}, async ({ page }) => {
  for (const path of ["docs", "objects", "recipes", "gotchas", "changelog", "keys", "dumps/"]) {
    await page.goto(`${BY_IP}/${path}`);
    const text = await page.locator("main").evaluate(main => {
      main.querySelectorAll("pre, code").forEach(code => code.remove());
      return main.textContent;
    });
    assert.doesNotMatch(text, /[*`]|\]\(/, path);
  }
});

await claim("code is copied as it is shown", { permissions: ["clipboard-read", "clipboard-write"] }, async ({ page }) => {
  for (const path of ["recipes", "docs", ""]) {
    await page.goto(`${BY_IP}/${path}`);
    const blocks = await page.locator("pre:not(.start)").count();
    assert.ok(blocks > 0);
    assert.equal(await page.locator("button.copy").count(), blocks, path);
    await page.locator("button.copy:visible").first().click();
    const shown = await page.locator(".copyable:visible pre").first().textContent();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), shown);
  }
});

await claim("old data is marked by its age", {}, async ({ page }) => {
  await page.clock.setFixedTime(new Date("2027-03-23T12:00:00Z"));
  await page.goto(`${CLOSED}/`);
  const marks = await page.locator(".old:visible").allTextContents();
  assert.ok(marks.length >= 3 && marks.every(mark => /^12[123] days old$/.test(mark)), marks.join());
  for (const path of ["", "islands/2708-3623-7025"]) {
    await page.goto(`${CLOSED}/${path}`);
    const rises = await page.locator(".tiles .old:visible").evaluateAll(marks => marks.map(mark => {
      const time = mark.parentElement.previousElementSibling;
      return time.getBoundingClientRect().bottom - mark.getBoundingClientRect().bottom;
    }));
    assert.ok(rises.length >= 2 && rises.every(rise => rise < -8), `an age has its own line: ${rises}`);
  }
  await page.clock.setFixedTime(new Date("2026-11-21T12:10:00Z"));
  await page.goto(`${CLOSED}/`);
  assert.equal(await page.locator(".old:visible").count(), 0);
});

await import("./reference.mjs");
await import("./sign_up.mjs");
await close();
