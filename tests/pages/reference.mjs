// The reference page as visitors use it: input fields, Send, curl lines, without a script, on paper, by keyboard.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";

import { BY_IP, claim, json, left, sound } from "./browser.mjs";

const island = (await json(`${BY_IP}/v1/islands?limit=1`)).islands[0];

await claim("Send shows status, time, headers and body, and its curl line does the same", {}, async ({ address, page, complaints }) => {
  await page.goto(`${BY_IP}/docs`);
  const form = page.locator("#listIslands");
  await form.locator("[name=limit]").fill("2");
  await form.locator("[name=q]").fill("a");
  await form.locator("select[name=order]").selectOption("asc");
  const spent = await left(address);
  await page.keyboard.press("Tab");
  await form.locator("[name=limit]").press("Enter");
  const line = form.locator(".answer [role=status]");
  await page.waitForFunction(() => /bytes/.test(document.querySelector("#listIslands .answer")?.textContent));
  assert.match(await line.textContent(), /^200 OK in [\d.]+ ms, [\d,]+ bytes$/);
  const [body, headers] = await form.locator(".answer pre").allTextContents();
  for (const name of ["x-ratelimit-limit: 100", "etag: ", "link: ", "content-type: application/json"]) assert.ok(headers.includes(name), name);
  assert.equal(JSON.parse(body).islands.length, 2);
  assert.equal(await left(address), spent - 1);
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
  await form.locator(".answer summary").click();
  await sound({ page, complaints }, "docs-sent");
  await form.locator("[name=limit]").fill("0");
  await form.locator("button.send").click();
  await page.waitForFunction(() => /^400/.test(document.querySelector("#listIslands .answer").textContent));
});

await claim("every endpoint can be sent from the reference", {}, async ({ page }) => {
  await page.goto(`${BY_IP}/docs`);
  // The examples are from the sample; the served data is different.
  for (const box of await page.locator("input[name=code]").all()) await box.fill(island.code);
  for (const box of await page.locator("input[name=slug]").all()) await box.fill(island.creator);
  for (const form of await page.locator("form[id]").all()) {
    await form.locator("button.send").click();
    const line = form.locator(".answer [role=status]");
    await page.waitForFunction(line => /bytes/.test(line.textContent), await line.elementHandle());
    assert.match(await line.textContent(), /^200/, await form.getAttribute("id"));
  }
});

await claim("Send tells bytes, and what is no text is not shown as one", {}, async ({ page }) => {
  await page.goto(`${BY_IP}/docs`);
  const sent = async form => {
    await form.locator("button.send").click();
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
});

await claim("wrong input is corrected or reported", {}, async ({ page, complaints }) => {
  await page.goto(`${BY_IP}/docs`);
  const sent = [];
  page.on("request", request => request.url().includes("/assets/") || sent.push(request.url()));
  const form = page.locator("#getIsland");
  const code = form.locator("[name=code]");
  await code.fill(`  ${island.code}\t`);
  await page.fill("#key", "  ");
  assert.ok((await form.locator("pre").first().textContent()).endsWith(`/v1/islands/${island.code}'`));
  await form.locator("button.send").click();
  await page.waitForFunction(() => /^200/.test(document.querySelector("#getIsland .answer")?.textContent));
  assert.deepEqual(sent.splice(0), [`${BY_IP}/v1/islands/${island.code}`]);
  for (const [endpoint, name, typed] of [["getIsland", "code", ".."], ["getCreator", "slug", "."], ["getDump", "file", "daily/../islands.csv"], ["getIsland", "code", " "]]) {
    const box = page.locator(`#${endpoint} [name=${name}]`);
    await box.fill(typed);
    await page.locator(`#${endpoint} button.send`).click();
    assert.match(await box.evaluate(box => box.validationMessage), /different path/, typed);
  }
  await page.fill("#key", "im_live_\u20ac");
  await page.locator("#getIndex button.send").click();
  assert.match(await page.locator("#key").evaluate(box => box.validationMessage), /cannot contain/);
  assert.equal(await page.evaluate(() => document.activeElement.id), "key");
  assert.deepEqual(sent, []);
  assert.deepEqual(complaints, []);
});

await claim("after Back the curl lines are those of the boxes", {}, async ({ page }) => {
  await page.goto(`${BY_IP}/docs`);
  await page.fill("#listIslands [name=q]", "maze");
  await page.goto(`${BY_IP}/gotchas`);
  await page.goBack();
  const typed = await page.inputValue("#listIslands [name=q]");
  const curl = await page.textContent("#listIslands pre");
  assert.equal(curl.includes("q=maze"), typed === "maze", curl);
  assert.equal(typed, "maze");
});

await claim("every answer of the reference leads to its members, and back", {}, async ({ page }) => {
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
});

await claim("a title without a blank makes no page too wide", { viewport: { width: 360, height: 800 } }, async ({ page }) => {
  for (const path of ["/", "/islands", "/creators", "/rankings", "/islands/" + island.code]) {
    await page.goto(BY_IP + path);
    await page.evaluate(() => document.querySelectorAll("bdi,h1").forEach(name => name.textContent = "W".repeat(45)));
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${path}: ${wide} pixels too wide`);
  }
});

await claim("the reference can be read without a script, and printed", { javaScriptEnabled: false }, async ({ page }) => {
  await page.goto(`${BY_IP}/docs`);
  const text = await page.textContent("main");
  for (const part of ["1 to 200", "rate_limited", "curl '", "The number of rows on a page"]) assert.ok(text.includes(part), part);
  assert.equal(await page.locator("button").count(), 0);
  assert.equal(await page.locator(".try input:visible, .try select:visible, #keybox:visible").count(), 0);
  await page.check("#getIndex [value=python]");
  assert.equal(await page.locator("#getIndex pre.python").isVisible(), true);
  assert.equal(await page.locator("#getIndex pre.curl").isVisible(), false);
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.locator("header nav").isVisible(), false);
  const examples = await page.locator(".response").count();
  assert.ok(examples > 5, "long examples");
  assert.equal(await page.locator(".response > pre:visible").count(), examples, "printed examples are whole");
  assert.equal(await page.locator(".start:visible, .response summary:visible").count(), 0);
  await page.goto(`${BY_IP}/`);
  assert.equal(await page.locator("#q").isVisible(), false);
  await page.emulateMedia({ media: "screen" });
  assert.equal(await page.locator("#q").isVisible(), true);
  assert.equal(await page.locator(".curve").count(), 1);
  assert.ok((await page.textContent("figcaption")).includes("highest"));
});

await claim("no box of the reference is printed", {}, async ({ page }) => {
  await page.goto(`${BY_IP}/docs`);
  assert.ok(await page.locator("input:visible").count() > 10);
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.locator("input:visible, select:visible, button:visible, #keybox:visible").count(), 0);
});

await claim("the chosen language is remembered and used for all examples", {}, async ({ page }) => {
  await page.goto(`${BY_IP}/docs`);
  await page.focus("#getIsland [value=curl]");
  await page.keyboard.press("ArrowRight");
  for (const path of ["docs", "gotchas", "docs"]) await page.goto(`${BY_IP}/${path}`);
  assert.equal(await page.locator("pre.python:visible").count(), await page.locator("form.endpoint").count());
  assert.equal(await page.locator("pre.curl:visible, pre.js:visible, .copyable.curl:visible").count(), 0);
  await page.fill("#listIslands [name=q]", 'a "b"');
  const shown = await page.textContent("#listIslands pre.python");
  assert.ok(shown.includes('requests.get("') && shown.includes("q=a%20%22b%22"), shown);
});

await claim("the contents mark the current place, and fold on a phone", {}, async ({ page }) => {
  await page.goto(`${BY_IP}/docs#getCreator`);
  await page.waitForFunction(() => document.querySelector(".side [aria-current]")?.hash === "#getCreator");
  await page.setViewportSize({ width: 360, height: 800 });
  assert.equal(await page.locator(".side nav").isVisible(), false);
  await page.focus("#fold");
  await page.keyboard.press("Space");
  await page.click('.side a[href="#quota"]');
  assert.equal(await page.locator(".side nav").isVisible(), false);
  const top = await page.locator("#quota").evaluate(heading => heading.getBoundingClientRect().top);
  assert.ok(top >= 0 && top < 400, String(top));
});

await claim("a response is shortened, and expands", { javaScriptEnabled: false }, async ({ page }) => {
  await page.goto(`${BY_IP}/docs`);
  const response = page.locator("#listIslands .response");
  const { meta } = await json(`${BY_IP}/v1/islands?limit=2`);
  const start = page.locator("#listIslands .start");
  assert.equal((await start.textContent()).split("\n").length, 15);
  await response.locator("summary").click();
  assert.equal(await start.isVisible(), false);
  assert.deepEqual(JSON.parse(await response.locator("pre").last().textContent()).meta, meta);
});

await claim("the keyboard reaches the content first", {}, async ({ page }) => {
  await page.goto(`${BY_IP}/docs`);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content");
});
