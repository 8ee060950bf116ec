// Sign-up by address and by mail, and attempts of other sites to use it.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";

import { BY_IP, BY_MAIL, MAIL, claim, sound } from "./browser.mjs";

const KEY = /^im_live_[0-9a-zA-Z]+_\S+$/;
const limit_of = async (base, key) => {
  const answer = await fetch(`${base}/v1/islands?limit=1`, { headers: { Authorization: `Bearer ${key}` } });
  return [answer.status, Number(answer.headers.get("x-ratelimit-limit"))];
};

let issued, holder;
await claim("sign-up by address shows a key that the API accepts until it is revoked", {}, async opened => {
  const { page } = opened;
  await page.goto(`${BY_IP}/keys`);
  await page.click("button[value=issue]");
  const key = await page.textContent("#newkey");
  assert.match(key, KEY);
  assert.deepEqual(await limit_of(BY_IP, key), [200, 1000]);
  await sound(opened, "keys-issued");
  await page.reload();
  assert.match(await page.textContent("main"), /issued after you opened the page/);
  opened.complaints.length = 0;
  await page.goto(`${BY_IP}/keys`);
  assert.equal(await page.locator("button[value=revoke]").count(), 1, "sent again, it issues nothing");
  const revoke = `button[aria-label="Revoke ${key.split("_")[2]}"]`;
  page.once("dialog", dialog => dialog.dismiss());
  await page.click(revoke);
  assert.equal((await limit_of(BY_IP, key))[0], 200, "not confirmed");
  page.once("dialog", dialog => dialog.accept());
  await page.click(revoke);
  await page.waitForSelector("text=is revoked");
  assert.equal((await limit_of(BY_IP, key))[0], 403);
  assert.equal(await page.locator("button[value=revoke]").count(), 0);
  await sound(opened, "keys-revoked");
  await page.click("button[value=issue]");
  issued = await page.textContent("#newkey");
  holder = opened.address;
});

await claim("a key in the reference stays in the page's memory", {}, async ({ page }) => {
  const sent = [];
  page.on("request", request => sent.push([request.url(), request.headers().authorization]));
  await page.goto(`${BY_IP}/docs`);
  await page.fill("#key", issued);
  const form = page.locator("#getIndex");
  await form.locator("button.send").click();
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
});

await claim("another site can neither read the page of keys nor act for its visitor", { address: holder }, async ({ page }) => {
  const evil = createServer((_, answer) => answer.setHeader("content-type", "text/html").end(`<form method=post
    action="${BY_IP}/keys"><input name=do value=issue><input name=pass value=x><button>x</button></form>`));
  await new Promise(ready => evil.listen(0, "127.0.0.1", ready));
  await page.goto(`http://127.0.0.1:${evil.address().port}/`);
  const read = await page.evaluate(url => fetch(url).then(answer => answer.text(), () => "refused"), `${BY_IP}/keys`);
  assert.equal(read, "refused");
  await page.click("button");
  assert.match(await page.textContent("main"), /came from another site/);
  await page.goto(`${BY_IP}/keys`);
  assert.equal(await page.locator("button[value=revoke]").count(), 1);
  evil.close();
});

await claim("sign-up by mail sends a link to a page that issues a key", {}, async opened => {
  const { page } = opened;
  await page.goto(`${BY_MAIL}/keys`);
  await page.fill("#email", "ann@example.com");
  await page.click("button[value=mail]");
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
});
