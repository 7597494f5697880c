/** The digests of the settings that must be equal on all gateways with one database. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sharedSettings } from "../../../src/pipeline/load/shared-settings.ts";

const sections = {
  plans: { free: { rps: 2, includedCu: 10 } },
  metering: { durability: "settled", export: { url: "https://billing", headers: { a: "secret" } } },
  rate: "0.25",
  networks: { classic: { url: "http://one", price_per_token_nano: "12" }, off: null },
  upstreams: { ledger: { urls: "http://one", methods: { a: { cuMilli: 7 } } }, other: null },
  dashboard: { oidc: { clientSecret: "one", roles: { admin: ["ops"] } } },
};

type Sections = Readonly<Record<string, unknown>>;

/** Returns the sections whose digests change with these changes of the sections. */
async function changed(more: Sections, environment: "dev" | "prod" = "dev"): Promise<string[]> {
  const before = await sharedSettings({ environment: "dev", sections });
  const after = await sharedSettings({ environment, sections: { ...sections, ...more } });
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
