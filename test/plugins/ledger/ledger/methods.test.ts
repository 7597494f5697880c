/** The settings of an upstream, the table of methods, and the whitelist that a deployment makes from them. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { describe, it, test } from "node:test";
import {
  poolConfig,
  type Options,
  type PoolConfig,
} from "../../../../plugins/ledger/ledger/options.ts";
import { parseConfig } from "../../../../src/config/parse-config.ts";
import { upstreams } from "../../../../src/http/upstream/service.ts";
import { shippedServices } from "../../../../src/pipeline/load/modules.ts";
import { fakeHost } from "../../fakes.ts";

import { createWhitelist } from "../../../../plugins/ledger/ledger/whitelist.ts";

const plain = createWhitelist({ aliases: {}, methods: {} });
const specification = new URL("../../../../../shared/spec/gateway.md", import.meta.url);

describe("the table of methods", () => {
  it(
    "contains the specification's methods, params and prices",
    { skip: !existsSync(specification) },
    () => {
      const text = readFileSync(specification, "utf8");
      const start = text.indexOf("| Method | Params | CU cost |");
      const rows = [
        ...text
          .slice(start)
          .matchAll(/^\| (\w+)(?: \([^)]*\))? \| (none|\[.*\]) \| ([\d.]+) \|$/gm),
      ];
      assert.equal(rows.length, 27);
      for (const [, name = "", params = "", cost] of rows) {
        const method = plain.get(name);
        assert(method !== undefined, name);
        const wanted = params === "none" ? [] : params.slice(1, -1).split(", ");
        assert.deepEqual(method.params, wanted, name);
        assert.equal(method.cuMilli, Number(cost) * 1000, name);
      }
    },
  );

  it("omits methods that are unbounded, write, subscribe or reveal facts about the node", () => {
    const refused = [
      "state_getKeys",
      "state_getPairs",
      "childstate_getKeys",
      "author_submitExtrinsic",
      "author_submitAndWatchExtrinsic",
      "author_rotateKeys",
      "transaction_v1_broadcast",
      "state_subscribeStorage",
      "chain_subscribeNewHeads",
      "chainHead_v1_follow",
      "archive_v1_storage",
      "system_health",
      "system_peers",
      "system_localPeerId",
      "offchain_localStorageGet",
      "dev_setStorage",
      "midnight_contractState",
    ];
    for (const name of refused) assert.equal(plain.has(name), false, name);
  });
});

describe("the whitelist", () => {
  it("removes methods, adds methods and changes prices", () => {
    const whitelist = createWhitelist({
      aliases: {},
      methods: {
        state_call: false,
        chain_getBlock: { cuMilli: 7 },
        system_health: {},
        custom_read: { cuMilli: 3, params: ["x"] },
        custom_other: {},
      },
    });
    assert.equal(whitelist.has("state_call"), false);
    assert.deepEqual(
      [whitelist.get("chain_getBlock")?.cuMilli, whitelist.get("chain_getBlock")?.params],
      [7, ["blockHash?"]],
    );
    assert.equal(whitelist.get("system_health")?.cuMilli, 100);
    assert.deepEqual(whitelist.get("custom_read")?.params, ["x"]);
    assert.equal(whitelist.get("custom_other")?.cuMilli, 1000);
  });

  it("treats a method that it does not know as one that writes", () => {
    const method = createWhitelist({ aliases: {}, methods: { custom_x: {} } }).get("custom_x");
    assert.deepEqual(
      [method?.retry, method?.isCacheable, method?.isShareable, method?.cheap],
      [false, false, false, false],
    );
  });

  it("does not add methods that submit extrinsics, which only ledger-ws offers", () => {
    const methods = { author_submitExtrinsic: { cuMilli: 1 } };
    assert.ok(!createWhitelist({ aliases: {}, methods }).has("author_submitExtrinsic"));
  });

  it("has no quorum for writes and for the finalized head, on which nodes need not agree", () => {
    const names = ["chain_getFinalizedHead", "archive_v1_finalizedHeight", "other_write"];
    const call = "state_call";
    const methods = Object.fromEntries([...names, call].map((name) => [name, { quorum: 2 }]));
    const whitelist = createWhitelist({ aliases: {}, methods });
    assert.deepEqual(
      names.map((name) => whitelist.get(name)?.quorum),
      [1, 1, 1],
    );
    assert.equal(whitelist.get(call)?.quorum, 2);
  });

  it("finds the node's own names by the longest prefix, and knows the fixed alias", () => {
    const whitelist = createWhitelist({
      aliases: { ledger_: "midnight_", ledger_api: "api_" },
      methods: {},
    });
    assert.equal(whitelist.get("ledger_contractState")?.nodeName, "midnight_contractState");
    assert.equal(whitelist.get("ledger_apiVersions")?.nodeName, "api_Versions");
    assert.equal(whitelist.get("account_nextIndex")?.nodeName, "system_accountNextIndex");
    assert.equal(whitelist.get("chain_getBlock")?.nodeName, "chain_getBlock");
    assert.equal(plain.get("ledger_contractState")?.nodeName, "ledger_contractState");
  });

  it("answers rpc_methods with its own methods, sorted", () => {
    const whitelist = createWhitelist({ aliases: {}, methods: { state_call: false } });
    const own: unknown = JSON.parse(whitelist.get("rpc_methods")?.gatewayAnswer ?? "");
    assert.deepEqual(own, { methods: [...whitelist.keys()].toSorted() });
  });
});

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
