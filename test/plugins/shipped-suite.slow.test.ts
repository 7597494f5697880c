/** The contract suite on the shipped plugins, without services, because their options are sections of pipeline.yaml. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Slots } from "sluice-gateway/plugin";
import { loadShipped } from "../../src/pipeline/load/load.ts";
import { judge, ruleNames } from "../../src/testing/suite/suite.ts";
import type { StepExample } from "../../src/testing/test-plugin.ts";
import { keyPrincipal } from "./fakes.ts";
import { fakeCharge } from "./tools/tool-catalogue/fixture.ts";

const slots: Partial<Slots> = { principal: keyPrincipal(), charge: fakeCharge() };

/** Nothing listens on this port. */
const unused = "http://127.0.0.1:9";

/** Options and services that a plugin needs in order to start. All plugins that are not listed here or below start alone. */
const examples: Readonly<Record<string, StepExample<object>>> = {
  authorize: { slots, options: { require: "key" } },
  cors: { options: { origins: ["https://app.test"] } },
  idempotency: { slots, request: { method: "POST", headers: { "idempotency-key": "gateway_1" } } },
  "jwt-auth": { options: { issuer: unused, audience: "gateway", jwks: unused } },
  mcp: { slots },
  "mcp-federation": { options: { prefix: "acme", url: unused, tools: { echo: 5 } } },
  meter: { slots: { principal: keyPrincipal() } },
  "network-models": { slots, path: "/v1/networks/{id}/models", request: { method: "PUT" } },
  "redact-pii": { request: { body: { messages: [{ role: "user", content: "ada@acme.test" }] } } },
  "resource-challenge": { options: { resource: unused } },
  "resource-metadata": { options: { resource: unused, issuer: unused } },
  "tool-rpc": { slots, request: { method: "POST" } },
  validate: { options: { query: { type: "object" } } },
  workspaces: { slots, options: { do: "show" }, path: "/workspaces/{id}" },
};

/** Plugins that need an upstream or a section of pipeline.yaml. Tests of whole gateways use them. */
const inGateways: ReadonlySet<string> = new Set([
  "chat",
  "confidential",
  "confidential-stream",
  "connect-page",
  "default-model",
  "embeddings",
  "forward",
  "ledger-rpc",
  "ledger-tools",
  "ledger-ws",
  "messages",
  "responses",
]);

/** Only plugins of other packages name their contract. 1,200 reloads of each plugin would take minutes. */
const leftOut = new Set(["manifest", "heap"]);
const only = ruleNames.filter((name) => !leftOut.has(name));

const { plugins } = await loadShipped();
const judged = [...plugins.values()].filter(
  ({ kind, name }) => kind !== "service" && !inGateways.has(name),
);

test("the lists name only plugins that exist", () => {
  const unknown = [...Object.keys(examples), ...inGateways].filter((name) => !plugins.has(name));
  assert.deepEqual(unknown, []);
});

for (const plugin of judged) {
  test(`${plugin.name} breaks no rule of the contract suite`, async () => {
    const findings = await judge(plugin, { example: examples[plugin.name] ?? {}, only });
    assert.ok(findings.length > 1);
    assert.deepEqual(
      findings.flatMap(({ rule, problems }) => problems.map((problem) => `${rule}: ${problem}`)),
      [],
    );
  });
}
