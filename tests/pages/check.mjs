// Uses every page in headless Chromium; one line for each claim that holds, and an end at the first that does not.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";

const { BY_IP, BY_MAIL, CLOSED, CHROMIUM, MODULES, MAIL, SHOTS } = process.env;
const modules = createRequire(`${MODULES}/package.json`);
const { chromium } = modules("playwright-core");
const AXE = readFileSync(modules.resolve("axe-core/axe.min.js"), "utf8");
const WIDTHS = [360, 1280];

// Builds run as root, where Chromium has no sandbox; the pages are ours.
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
let claims = 0;
const claim = async (what, check) => {
  try {
    await check();
  } catch (error) {
    console.error(`not so: ${what}`);
    throw error;
  }
  claims += 1;
  console.log(`ok ${what}`);
};

const json = async (url, headers = {}) => (await fetch(url, { headers })).json();
const left = async () => Number((await fetch(`${BY_IP}/v1/health`)).headers.get("x-ratelimit-remaining"));

/// A page of its own, and what its console and its policy complain about.
const open = async (options = {}) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  await context.addInitScript(() => {
    globalThis.violations = [];
    addEventListener("securitypolicyviolation", event => violations.push(event.violatedDirective));
  });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const complaints = [];
  page.on("console", message => ["error", "warning"].includes(message.type()) && complaints.push(message.text()));
  page.on("pageerror", error => complaints.push(String(error)));
  page.on("request", request => {
    if (![BY_IP, BY_MAIL, CLOSED].some(base => request.url().startsWith(base))) complaints.push(`asks ${request.url()}`);
  });
  return { context, page, complaints };
};

const sound = async ({ page, complaints }, name, { colorScheme = "light" } = {}) => {
  assert.deepEqual(complaints, [], `${name}: complaints`);
  assert.deepEqual(await page.evaluate(() => globalThis.violations), [], `${name}: policy`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${name}: ${wide} pixels too wide`);
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => axe.run({ resultTypes: ["violations"] }));
  const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
  const told = serious.map(({ id, nodes }) => `${id}: ${nodes.map(node => node.html.slice(0, 120)).join(" | ")}`);
  assert.deepEqual(told, [], `${name}: accessibility`);
  const width = page.viewportSize().width;
  await page.screenshot({ path: `${SHOTS}/${name}-${width}-${colorScheme}.png`, fullPage: !["docs", "objects"].includes(name) || width > 400 });
};

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

await claim("Send shows status, time, headers and body, and its curl line does the same", async () => {
  const { page, context, complaints } = await open();
  await page.goto(`${BY_IP}/docs`);
  const form = page.locator("#listIslands");
  await form.locator("[name=limit]").fill("2");
  await form.locator("[name=q]").fill("a");
  await form.locator("select[name=order]").selectOption("asc");
  const spent = await left();
  await page.keyboard.press("Tab");
  await form.locator("[name=limit]").press("Enter");
  const line = form.locator(".answer [role=status]");
  await page.waitForFunction(() => /bytes/.test(document.querySelector("#listIslands .answer")?.textContent));
  assert.match(await line.textContent(), /^200 OK in [\d.]+ ms, [\d,]+ bytes$/);
  const [body, headers] = await form.locator(".answer pre").allTextContents();
  for (const name of ["x-ratelimit-limit: 100", "etag: ", "link: ", "content-type: application/json"]) assert.ok(headers.includes(name), name);
  assert.equal(JSON.parse(body).islands.length, 2);
  assert.equal(await left(), spent - 1);
  assert.ok((await page.textContent("#left")).includes(`${spent - 1} left`));
  const curl = await form.locator("pre").first().textContent();
  assert.ok(curl.includes("/v1/islands?q=a&order=asc&limit=2'"), curl);
  const again = execFileSync("bash", ["-c", curl.replace("curl ", "curl -s ")], { encoding: "utf8" });
  assert.deepEqual(JSON.parse(again), JSON.parse(body));
  await form.locator("[name=q]").fill("it's");
  const quoted = await form.locator("pre").first().textContent();
  assert.ok(quoted.includes("q=it%27s"), quoted);
  await form.locator("[name=q]").fill("it's \"50%\" & $HOME `more`");
  const hostile = (await form.locator("pre").first().textContent()).replace("curl ", "curl -s ");
  assert.deepEqual(JSON.parse(execFileSync("bash", ["-c", hostile], { encoding: "utf8" })).islands, []);
  assert.ok(await line.evaluate(line => {
    const { top, bottom } = line.getBoundingClientRect();
    return top >= 0 && bottom <= innerHeight;
  }), "the answer is in view");
  await form.locator("summary").click();
  await sound({ page, complaints }, "docs-sent");
  await form.locator("[name=limit]").fill("0");
  await form.locator("button").click();
  await page.waitForFunction(() => /^400/.test(document.querySelector("#listIslands .answer").textContent));
  await context.close();
});

await claim("every endpoint can be sent from the reference", async () => {
  const { page, context } = await open();
  await page.goto(`${BY_IP}/docs`);
  // Examples are of the sample; this data is another.
  for (const box of await page.locator("input[name=code]").all()) await box.fill(island.code);
  for (const box of await page.locator("input[name=slug]").all()) await box.fill(island.creator);
  for (const form of await page.locator("form[id]").all()) {
    await form.locator("button").click();
    const line = form.locator(".answer [role=status]");
    await page.waitForFunction(line => /bytes/.test(line.textContent), await line.elementHandle());
    assert.match(await line.textContent(), /^200/, await form.getAttribute("id"));
  }
  await context.close();
});

await claim("Send tells bytes, and what is no text is not shown as one", async () => {
  const { page, context } = await open();
  await page.goto(`${BY_IP}/docs`);
  const sent = async form => {
    await form.locator("button").click();
    const told = await form.locator(".answer [role=status]").elementHandle();
    await page.waitForFunction(line => /bytes/.test(line.textContent), told);
    return [await told.textContent(), await form.locator(".answer pre").first().textContent()];
  };
  const file = page.locator("#getDump");
  const { files } = await json(`${BY_IP}/dumps/`);
  const bytes = name => files.find(({ file }) => file === name).bytes.toLocaleString("en");
  for (const name of ["islands.csv.gz", "islands.csv", "islands.json"]) {
    await file.locator("[name=file]").fill(name);
    const [line, body] = await sent(file);
    assert.ok(line.endsWith(` ms, ${bytes(name)} bytes`), line);
    if (name.endsWith(".gz")) assert.equal(body, "binary, not shown");
    else assert.ok(body.endsWith(`\n… cut here; ${bytes(name)} bytes in all`), body.slice(-80));
  }
  await context.close();
});

await claim("slips in the boxes are mended or told, and asked for as they are shown", async () => {
  const { page, context, complaints } = await open();
  await page.goto(`${BY_IP}/docs`);
  const sent = [];
  page.on("request", request => request.url().includes("/assets/") || sent.push(request.url()));
  const form = page.locator("#getIsland");
  const code = form.locator("[name=code]");
  await code.fill(`  ${island.code}\t`);
  await page.fill("#key", "  ");
  assert.ok((await form.locator("pre").first().textContent()).endsWith(`/v1/islands/${island.code}'`));
  await form.locator("button").click();
  await page.waitForFunction(() => /^200/.test(document.querySelector("#getIsland .answer")?.textContent));
  assert.deepEqual(sent.splice(0), [`${BY_IP}/v1/islands/${island.code}`]);
  for (const [endpoint, name, typed] of [["getIsland", "code", ".."], ["getCreator", "slug", "."], ["getDump", "file", "daily/../islands.csv"], ["getIsland", "code", " "]]) {
    const box = page.locator(`#${endpoint} [name=${name}]`);
    await box.fill(typed);
    await page.locator(`#${endpoint} button`).click();
    assert.match(await box.evaluate(box => box.validationMessage), /another path/, typed);
  }
  await page.fill("#key", "im_live_\u20ac");
  await page.locator("#getIndex button").click();
  assert.match(await page.locator("#key").evaluate(box => box.validationMessage), /No header/);
  assert.equal(await page.evaluate(() => document.activeElement.id), "key");
  assert.deepEqual(sent, []);
  assert.deepEqual(complaints, []);
  await context.close();
});

await claim("after Back the curl lines are those of the boxes", async () => {
  const { page, context } = await open();
  await page.goto(`${BY_IP}/docs`);
  await page.fill("#listIslands [name=q]", "maze");
  await page.goto(`${BY_IP}/gotchas`);
  await page.goBack();
  const typed = await page.inputValue("#listIslands [name=q]");
  const curl = await page.textContent("#listIslands pre");
  assert.equal(curl.includes("q=maze"), typed === "maze", curl);
  assert.equal(typed, "maze");
  await context.close();
});

await claim("every answer of the reference leads to its members, and back", async () => {
  const { page, context } = await open();
  await page.goto(`${BY_IP}/docs`);
  const links = await page.locator("form a[href^=objects]").evaluateAll(links => links.map(link => [link.closest("form").id, link.href]));
  assert.equal(links.length, await page.locator("form[id]").count());
  for (const [id, href] of links) {
    await page.goto(href);
    const heading = page.locator(`#${new URL(href).hash.slice(1)}`);
    assert.equal(await heading.evaluate(heading => heading === document.querySelector(":target")), true);
    assert.ok(await page.locator(`:target ~ p a[href="docs#${id}"]`).count() > 0, id);
    assert.ok(await page.locator(":target ~ details pre").count() > 0, id);
  }
  await context.close();
});

await claim("a title without a blank makes no page too wide", async () => {
  const { page, context } = await open({ viewport: { width: 360, height: 800 } });
  for (const path of ["/", "/?q=a", "/islands/" + island.code]) {
    await page.goto(BY_IP + path);
    await page.evaluate(() => document.querySelectorAll("bdi,h1").forEach(name => name.textContent = "W".repeat(45)));
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${path}: ${wide} pixels too wide`);
  }
  await context.close();
});

await claim("the reference can be read without a script, and printed", async () => {
  const { page, context } = await open({ javaScriptEnabled: false });
  await page.goto(`${BY_IP}/docs`);
  const text = await page.textContent("main");
  for (const part of ["integer, 1 to 200, default 50", "rate_limited", "curl '", "Page size"]) assert.ok(text.includes(part), part);
  assert.equal(await page.locator("button").count(), 0);
  assert.equal(await page.locator("input:visible, select:visible").count(), 0);
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.locator("header nav").isVisible(), false);
  await page.goto(`${BY_IP}/`);
  assert.equal(await page.locator("#q").isVisible(), false);
  await page.emulateMedia({ media: "screen" });
  assert.equal(await page.locator("#q").isVisible(), true);
  assert.equal(await page.locator(".curve").count(), 1);
  assert.ok((await page.textContent("figcaption")).includes("highest"));
  await context.close();
});

await claim("no box of the reference is printed", async () => {
  const { page, context } = await open();
  await page.goto(`${BY_IP}/docs`);
  assert.ok(await page.locator("input:visible").count() > 10);
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.locator("input:visible, select:visible, button:visible, #keybox:visible").count(), 0);
  await context.close();
});

await claim("the keyboard reaches the content first", async () => {
  const { page, context } = await open();
  await page.goto(`${BY_IP}/docs`);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content");
  await context.close();
});

const KEY = /^im_live_[0-9a-zA-Z]+_\S+$/;
const limit_of = async (base, key) => {
  const answer = await fetch(`${base}/v1/islands?limit=1`, { headers: { Authorization: `Bearer ${key}` } });
  return [answer.status, Number(answer.headers.get("x-ratelimit-limit"))];
};

let issued;
await claim("sign-up by address shows a key that the API accepts, three at most", async () => {
  const opened = await open();
  const { page, context } = opened;
  await page.goto(`${BY_IP}/keys`);
  const keys = [];
  for (let count = 0; count < 3; count += 1) {
    await page.click("button[value=issue]");
    const key = await page.textContent("#newkey");
    assert.match(key, KEY);
    assert.deepEqual(await limit_of(BY_IP, key), [200, 1000]);
    keys.push(key);
    if (count === 0) {
      await sound(opened, "keys-issued");
      await page.reload();
      assert.match(await page.textContent("main"), /issues no other/);
      opened.complaints.length = 0;
      await page.goto(`${BY_IP}/keys`);
      assert.equal(await page.locator("button[value=revoke]").count(), 1, "sent again, it issues nothing");
    }
  }
  assert.equal(new Set(keys).size, 3);
  assert.equal(await page.locator("button[value=issue]").count(), 0);
  issued = keys[0];
  await page.click(`button[aria-label="Revoke ${issued.split("_")[2]}"]`);
  assert.equal((await limit_of(BY_IP, issued))[0], 403);
  assert.equal(await page.locator("button[value=revoke]").count(), 2);
  assert.equal(await page.locator("button[value=issue]").count(), 1);
  await sound(opened, "keys-revoked");
  issued = keys[1];
  await context.close();
});

await claim("a key in the reference stays in the page's memory", async () => {
  const { page, context } = await open();
  const sent = [];
  page.on("request", request => sent.push([request.url(), request.headers().authorization]));
  await page.goto(`${BY_IP}/docs`);
  await page.fill("#key", issued);
  const form = page.locator("#getIndex");
  await form.locator("button").click();
  await page.waitForFunction(() => /bytes/.test(document.querySelector("#getIndex .answer")?.textContent));
  assert.deepEqual(sent.at(-1), [`${BY_IP}/v1`, `Bearer ${issued}`]);
  assert.ok(sent.every(([url]) => !url.includes(issued)));
  assert.ok((await form.locator(".answer details pre").textContent()).includes("x-ratelimit-limit: 1000"));
  const curl = await form.locator("pre").first().textContent();
  assert.ok(curl.includes("$ISLAND_METRICS_KEY") && !curl.includes(issued), curl);
  const kept = await page.evaluate(async () => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
  assert.equal(kept, '[{},{},""]');
  await page.reload();
  assert.equal(await page.inputValue("#key"), "");
  await context.close();
});

await claim("another site can neither read the page of keys nor act for its visitor", async () => {
  const evil = createServer((_, answer) => answer.setHeader("content-type", "text/html").end(`<form method=post
    action="${BY_IP}/keys"><input name=do value=issue><input name=pass value=x><button>x</button></form>`));
  await new Promise(ready => evil.listen(0, "127.0.0.1", ready));
  const { page, context } = await open();
  await page.goto(`http://127.0.0.1:${evil.address().port}/`);
  const read = await page.evaluate(url => fetch(url).then(answer => answer.text(), () => "refused"), `${BY_IP}/keys`);
  assert.equal(read, "refused");
  await page.click("button");
  assert.match(await page.textContent("main"), /came from another site/);
  await page.goto(`${BY_IP}/keys`);
  assert.equal(await page.locator("button[value=revoke]").count(), 2);
  await context.close();
  evil.close();
});

await claim("sign-up by mail: a link, a key, and nothing told of other addresses", async () => {
  const opened = await open();
  const { page, context } = opened;
  const ask = async address => {
    await page.goto(`${BY_MAIL}/keys`);
    await page.fill("#email", address);
    await page.click("button[value=mail]");
    return page.textContent("main");
  };
  const first = await ask("ann@example.com");
  await sound(opened, "keys-mailed");
  const mails = () => readdirSync(MAIL).map(name => readFileSync(`${MAIL}/${name}`, "utf8"));
  for (let wait = 0; mails().length === 0 && wait < 100; wait += 1) await page.waitForTimeout(50);
  const [mail] = mails();
  assert.match(mail, /^To: ann@example\.com$/m);
  const link = mail.split(/\r?\n/).find(line => line.startsWith(`${BY_MAIL}/keys?pass=`));
  await page.goto(link);
  await page.click("button[value=issue]");
  const key = await page.textContent("#newkey");
  assert.deepEqual(await limit_of(BY_MAIL, key), [200, 1000]);
  await page.goBack();
  await page.goto(link);
  assert.ok((await page.textContent("main")).includes(key.split("_")[2]), "the link still shows the keys");
  assert.equal(await ask("bob@example.com"), first);
  assert.equal(await ask("ann@example.com"), first);
  await page.goto(`${link.slice(0, -3)}xyz`);
  assert.match(await page.textContent("main"), /not valid/);
  await context.close();
});

await claim("where sign-up is closed a person is told so, and a program gets 404", async () => {
  const { page, context } = await open();
  const answer = await page.goto(`${CLOSED}/keys`);
  assert.equal(answer.status(), 404);
  assert.match(await page.textContent("main"), /does not issue keys online/);
  const told = await fetch(`${CLOSED}/keys`, { headers: { Accept: "application/json" } });
  assert.deepEqual([told.status, (await told.json()).error.code], [404, "not_found"]);
  await context.close();
});

await browser.close();
console.log(`${claims} claims hold; the screenshots are in ${SHOTS}`);
