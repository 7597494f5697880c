import assert from "node:assert/strict";
import { test } from "node:test";
import { testSurface } from "../../../plugins/contracts/testing.ts";
import plugin from "../../../plugins/extras/resource-metadata/index.ts";

const options = { resource: "https://gateway.test/mcp", issuer: "https://id.acme.test" };
const document = {
  resource: options.resource,
  authorization_servers: [options.issuer],
  bearer_methods_supported: ["header"],
};

test("the metadata names the provider and the scopes, and pages of every origin can read it", async () => {
  const scopes = ["docs:read", "inference"];
  await using tested = await testSurface(plugin, { options: { ...options, scopes } });
  const { status, headers, body } = await tested.send();
  assert.equal(status, 200);
  assert.equal(headers["content-type"], "application/json");
  assert.equal(headers["access-control-allow-origin"], "*");
  assert.deepEqual(JSON.parse(body), { ...document, scopes_supported: scopes });
});

test("without the option `scopes`, the metadata names none", async () => {
  await using tested = await testSurface(plugin, { options });
  assert.deepEqual(JSON.parse((await tested.send()).body), document);
});

for (const wrong of ["gateway.test/mcp", "https://", "https://gateway.test/mcp#tools"]) {
  test(`the address ${wrong} is refused at the start`, async () => {
    const started = testSurface(plugin, { options: { ...options, resource: wrong } });
    await assert.rejects(started, /resource/);
  });
}
