/** Tests of the algorithm of the digests of settings that must be equal on all gateways with one database. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "../../../src/config/parse-config.ts";
import { sharedSettings } from "../../../src/pipeline/load/shared-settings.ts";
import { differenceFrom, type SettingsDigests } from "../../../src/store/postgres/gateway-rows.ts";

const sections = {
  plans: { free: { rps: 2, includedCu: 10 } },
  metering: { durability: "settled", export: { url: "https://billing", headers: { a: "secret" } } },
  rate: "0.25",
  networks: { classic: { url: "http://one", price_per_token_nano: "12" }, off: null },
  upstreams: { ledger: { urls: "http://one", methods: { a: { cuMilli: 7 } } }, other: null },
  dashboard: { oidc: { clientSecret: "one", roles: { admin: ["ops"] } } },
};

type Sections = Readonly<Record<string, unknown>>;

async function changed(more: Sections, environment: "dev" | "prod" = "dev"): Promise<string[]> {
  const none = { routes: [], unmatched: [] };
  const before = await sharedSettings({ environment: "dev", sections, ...none });
  const changes = { environment, sections: { ...sections, ...more } };
  const after = await sharedSettings({ ...changes, ...none });
  return Object.keys(before).filter((section) => before[section] !== after[section]);
}

test("plans, prices, metering, roles and the environment must be equal", async () => {
  assert.deepEqual(await changed({}), []);
  assert.deepEqual(await changed({}, "prod"), ["environment"]);
  assert.deepEqual(await changed({ plans: { free: { includedCu: 10, rps: 2 } } }), []);
  assert.deepEqual(await changed({ plans: { free: { rps: 2, includedCu: 11 } } }), ["plans"]);
  assert.deepEqual(await changed({ metering: { durability: "async" } }), ["metering"]);
  assert.deepEqual(await changed({ rate: "0.26" }), ["rate"]);
  const networks = { classic: { ...sections.networks.classic, price_per_token_nano: "13" } };
  assert.deepEqual(await changed({ networks }), ["networks"]);
  const ledger = { ...sections.upstreams.ledger, methods: { a: { cuMilli: 8 } } };
  assert.deepEqual(await changed({ upstreams: { ledger, other: null } }), ["upstreams"]);
  const { oidc } = sections.dashboard;
  const roles = { admin: ["ops", "staff"] };
  assert.deepEqual(await changed({ dashboard: { oidc: { ...oidc, roles } } }), ["dashboard"]);
});

test("addresses and credentials of backends may differ", async () => {
  const { metering, networks, upstreams } = sections;
  const exported = { ...metering.export, headers: { a: "another" } };
  assert.deepEqual(await changed({ metering: { ...metering, export: exported } }), []);
  const classic = { ...networks.classic, url: "http://two" };
  assert.deepEqual(await changed({ networks: { ...networks, classic } }), []);
  const ledger = { ...upstreams.ledger, urls: "http://two" };
  assert.deepEqual(await changed({ upstreams: { ...upstreams, ledger } }), []);
  const oidc = { ...sections.dashboard.oidc, clientSecret: "two" };
  assert.deepEqual(await changed({ dashboard: { oidc } }), []);
});

async function digestsOf(lines: string): Promise<SettingsDigests> {
  const text = `version: 1\n${lines}`;
  const { config, faults } = parseConfig(text, "/pipeline.yaml", {});
  assert.deepEqual(faults, []);
  assert.ok(config !== undefined);
  return sharedSettings(config);
}

const routes = `
lists:
  edge: [request-id, rate-limit]
unmatched: [rate-limit]
routes:
  - path: /a
    methods: [GET, POST]
    run: [{ use: edge }, { meter: { price: 5 } }]
    to: { forward: { url: "http://one" } }
  - { path: /b, websocket: true, run: [{ use: edge }], to: discovery }
`;

test("the steps of a route that two gateways share must be equal, and a route of only one is not compared", async () => {
  const before = await digestsOf(routes);
  const changes = async (from: string, to: string): Promise<string[]> => {
    assert.ok(routes.includes(from));
    const after = await digestsOf(routes.replace(from, to));
    return Object.keys(before).filter((name) => before[name] !== after[name]);
  };
  const [a, b] = ["route GET,POST /a", "route websocket /b"] as const;
  assert.deepEqual(await changes("price: 5", "price: 6"), [a]);
  assert.deepEqual(await changes("price: 5 }", "price: 5 }, mode: shadow"), [a]);
  assert.deepEqual(await changes("price: 5 }", 'price: 5 }, when: { path: "/a" }'), [a]);
  assert.deepEqual(await changes("price: 5 }", "price: 5 }, mode: off"), [a]);
  assert.deepEqual(
    await changes("[request-id, rate-limit]", "[request-id, { rate-limit: { rps: 9 } }]"),
    [a, b],
  );
  assert.deepEqual(await changes("unmatched: [rate-limit]", "unmatched: []"), ["unmatched"]);
  assert.deepEqual(await changes("[GET, POST]", "[POST, GET]"), []);
  assert.deepEqual(await changes("http://one", "http://two"), []);
  const more = await digestsOf(`${routes}  - { path: /c, run: [{ use: edge }], to: discovery }\n`);
  const settings = JSON.stringify(more);
  assert.equal(differenceFrom(before, [{ name: "two", settings }]), undefined);
});
