// Prints how many islands are made with UEFN, and a week of the most played one. Needs Node 20 or newer and no client
// library: the types are generated from the server's OpenAPI document.
//
//   npm install --save-dev openapi-typescript typescript@5 @types/node
//   npx openapi-typescript http://127.0.0.1:8080/openapi.json --output schema.d.ts
//   npx tsc --strict --target es2022 --module commonjs client.ts && node client.js

import type { components, paths } from "./schema";

const base = "http://127.0.0.1:8080";
const key = process.env.ISLAND_METRICS_KEY;

type Island = components["schemas"]["IslandSummary"];
type Filter = NonNullable<paths["/v1/islands"]["get"]["parameters"]["query"]>;
/** The body of a path's 200. */
type Body<Path extends keyof paths> = paths[Path]["get"] extends {
  responses: { 200: { content: { "application/json": infer Json } } };
}
  ? Json
  : never;

/** The requested path differs from the documented one (`{code}`), which callers name as the type parameter. */
async function get<Path extends keyof paths>(path: string, query: object = {}): Promise<Body<Path>> {
  const url = new URL(base + path);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value));
  const answer = await fetch(url, key ? { headers: { Authorization: `Bearer ${key}` } } : {});
  const body = await answer.json();
  if (!answer.ok) throw new Error(`${answer.status} ${body.error.code}: ${body.error.message}`);
  return body;
}

export async function* islands(filter: Omit<Filter, "limit" | "offset"> = {}): AsyncGenerator<Island> {
  for (let offset = 0, more = true; more; offset += 200) {
    const page = await get<"/v1/islands">("/v1/islands", { ...filter, limit: 200, offset });
    yield* page.islands;
    more = page.meta.hasMore;
  }
}

export async function island(code: string) {
  return (await get<"/v1/islands/{code}">(`/v1/islands/${code}`)).island;
}

async function main() {
  let top: Island | undefined;
  let count = 0;
  for await (const one of islands({ createdIn: "uefn", sort: "plays" })) {
    top ??= one;
    count += 1;
  }
  console.log(`${count} islands made with UEFN`);
  if (!top) return;
  const { title, series } = await island(top.code);
  // A metric can be null, so the compiler requires a default.
  for (const day of series.slice(-7)) console.log(`${day.date}\t${day.plays ?? "unknown"}\t${title}`);
}

main().catch((fault: Error) => {
  console.error(fault.message);
  process.exitCode = 1;
});
