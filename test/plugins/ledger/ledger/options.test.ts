/** Tests of the parser of the section `upstreams`, with the members that the service `ledger` adds. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  poolConfig,
  type Options,
  type PoolConfig,
} from "../../../../plugins/ledger/ledger/options.ts";
import { parseConfig } from "../../../../src/config/parse-config.ts";
import { upstreams } from "../../../../src/http/upstream/service.ts";
import { shippedServices } from "../../../../src/pipeline/load/modules.ts";
import { fakeHost } from "../../fakes.ts";

const services = await shippedServices();

async function read(
  section: string,
  name: string,
  env: Record<string, string> = {},
): Promise<PoolConfig | undefined> {
  const text = `version: 1\nupstreams:\n${section}\nroutes: [{ path: /a, to: echo }]\n`;
  const { config, faults } = parseConfig(text, "/pipeline.yaml", env, services);
  assert.deepEqual(faults, []);
  const options = config?.sections as unknown as Options;
  const used = await upstreams.dryRun?.(options as never, fakeHost());
  return poolConfig(options, name, fakeHost({}, { upstreams: used! }));
}

test("urls can be one url, several with commas, a list, or a list with commas", async () => {
  const section = `
  one: { urls: "http://a" }
  some: { urls: "http://a, ws://b," }
  list: { urls: ["https://a", "\${MORE}", "\${NONE:-}"] }`;
  const env = { MORE: "wss://b,http://c" };
  const urls = async (name: string) => (await read(section, name, env))?.urls;
  assert.deepEqual(await urls("one"), ["http://a"]);
  assert.deepEqual(await urls("some"), ["http://a", "ws://b"]);
  assert.deepEqual(await urls("list"), ["https://a", "wss://b", "http://c"]);
});

test("durations are converted to milliseconds; a method rule of true changes nothing", async () => {
  const pool = await read(
    `  a: { urls: "http://a", maxHeadAge: 90s, methods: { x: true, y: false, z: { cuMilli: 5 } } }`,
    "a",
  );
  assert.equal(pool?.maxHeadAgeMs, 90_000);
  assert.deepEqual(pool?.methods, { x: {}, y: false, z: { cuMilli: 5 } });
});
