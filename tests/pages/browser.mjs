// A browser, and checks for every page.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

export const { BY_IP, BY_MAIL, CLOSED, MAIL, SHOTS } = process.env;
const { CHROMIUM, MODULES } = process.env;
const modules = createRequire(`${MODULES}/package.json`);
const { chromium } = modules("playwright-core");
const AXE = readFileSync(modules.resolve("axe-core/axe.min.js"), "utf8");

// Builds run as root, for which Chromium has no sandbox; the pages are our own.
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
let claims = 0;

export const json = async (url, headers = {}) => (await fetch(url, { headers })).json();
/// The address of a client, which the servers read as that of a trusted proxy.
const from = address => ({ "X-Forwarded-For": address });
/// Returns the rest of an address's quota.
export const left = async address =>
  Number((await fetch(`${BY_IP}/v1/health`, { headers: from(address) })).headers.get("x-ratelimit-remaining"));

let visitors = 0;
const newAddress = () => {
  visitors += 1;
  return `198.18.${visitors >> 8}.${visitors & 255}`;
};
/// A new page of a visitor, and the messages of its console and its content security policy. Each visitor has an address
/// of its own, since servers limit the pages of an address.
const open = async ({ address = newAddress(), ...options } = {}) => {
  const extraHTTPHeaders = from(address);
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, extraHTTPHeaders, ...options });
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
  return { address, context, page, complaints };
};

/// Checks a claim with a new page of a visitor; prints it if it is true, and otherwise ends the program.
export const claim = async (what, options, check) => {
  const opened = await open(options);
  try {
    await check(opened);
  } catch (error) {
    console.error(`not so: ${what}`);
    throw error;
  }
  await opened.context.close();
  claims += 1;
  console.log(`ok ${what}`);
};

/// The texts around the dates that are broken into two lines. Code may be: its long lines wrap anywhere.
export const brokenDates = () => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const broken = [];
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    if (text.parentElement.closest("pre")) continue;
    for (const { index } of text.data.matchAll(/\d{4}-\d\d-\d\d/g)) {
      const date = document.createRange();
      date.setStart(text, index);
      date.setEnd(text, index + "2026-11-20".length);
      if (date.getClientRects().length > 1) broken.push(text.data.slice(0, 80));
    }
  }
  return broken;
};

export const sound = async ({ page, complaints }, name, { colorScheme = "light" } = {}) => {
  assert.deepEqual(complaints, [], `${name}: complaints`);
  assert.deepEqual(await page.evaluate(() => globalThis.violations), [], `${name}: policy`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${name}: ${wide} pixels too wide`);
  assert.deepEqual(await page.evaluate(brokenDates), [], `${name}: dates on two lines`);
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => axe.run({ resultTypes: ["violations"] }));
  const told = violations.map(({ id, nodes }) => `${id}: ${nodes.map(node => node.html.slice(0, 120)).join(" | ")}`);
  assert.deepEqual(told, [], `${name}: accessibility`);
  const width = page.viewportSize().width;
  await page.screenshot({ path: `${SHOTS}/${name}-${width}-${colorScheme}.png`, fullPage: !["docs", "objects", "recipes"].includes(name) || width > 400 });
};

/// Closes the browser, and prints the number of claims.
export const close = async () => {
  await browser.close();
  console.log(`${claims} claims hold; the screenshots are in ${SHOTS}`);
};
