import assert from "node:assert/strict";
import { test } from "node:test";
import metering from "../../../../plugins/billing/metering/index.ts";
import { exportOf, type Options } from "../../../../plugins/billing/metering/options.ts";
import { parseConfig } from "../../../../src/config/read.ts";

function read(text: string): Options {
  const file = `version: 1\nroutes: [{ path: /a, to: echo }]\n${text}`;
  const { config, faults } = parseConfig(file, "/pipeline.yaml", {}, [metering]);
  assert.deepEqual(faults, []);
  // The file was checked with the schema of the service.
  return config?.sections as unknown as Options;
}

test("by default, charges are durable before the answer ends, and nothing is exported", () => {
  const options = read("");
  assert.equal(options.metering.durability, "settled");
  assert.equal(exportOf(options), undefined);
});

test("an export without a url is disabled", () => {
  assert.equal(exportOf(read("metering: { export: { batch: 5 } }\n")), undefined);
  const url = "http://127.0.0.1/";
  assert.deepEqual(exportOf(read(`metering: { export: { url: "${url}", every: 2s } }\n`)), {
    url,
    headers: {},
    everyMs: 2_000,
    batch: 100,
    source: "sluice",
    type: "sluice.charge",
    subject: "workspace",
  });
});
