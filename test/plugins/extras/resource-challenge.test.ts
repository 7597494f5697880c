import assert from "node:assert/strict";
import { test } from "node:test";
import { testStep } from "../../../plugins/contracts/testing.ts";
import plugin from "../../../plugins/extras/resource-challenge/index.ts";

const options = { resource: "https://gateway.test/mcp" };
const wellKnown = "https://gateway.test/.well-known/oauth-protected-resource";
const metadata = `${wellKnown}/mcp`;
const refusing = (): { status: number; headers: string[]; body: string } => ({
  status: 401,
  headers: ["www-authenticate", 'Bearer realm="gateway"'],
  body: "no",
});

for (const [authorization, challenge] of [
  [undefined, `Bearer resource_metadata="${metadata}"`],
  ["Bearer a.b.c", `Bearer error="invalid_token", resource_metadata="${metadata}"`],
] as const) {
  test(`a 401 for ${authorization ?? "no token"} names the metadata`, async () => {
    await using tested = await testStep(plugin, { options, surface: refusing });
    const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
    const answer = await tested.send({ headers });
    assert.equal(answer.status, 401);
    assert.equal(answer.headers["www-authenticate"], challenge);
    assert.equal(answer.body, "no");
  });
}

for (const [resource, path] of [
  ["https://gateway.test", ""],
  ["https://gateway.test/", ""],
  ["https://gateway.test/a/mcp?tenant=1", "/a/mcp?tenant=1"],
] as const) {
  test(`the path of the metadata of ${resource} follows from that of the resource`, async () => {
    await using tested = await testStep(plugin, { options: { resource }, surface: refusing });
    const challenge = (await tested.send()).headers["www-authenticate"];
    assert.equal(challenge, `Bearer resource_metadata="${wellKnown}${path}"`);
  });
}

for (const status of [200, 403, 503]) {
  test(`an answer with status ${status} has no challenge`, async () => {
    await using tested = await testStep(plugin, { options, surface: () => ({ status }) });
    assert.equal((await tested.send()).headers["www-authenticate"], undefined);
  });
}

for (const resource of ["gateway.test/mcp", "https://gateway.test:99999/mcp"]) {
  test(`the address ${resource} is refused at the start`, async () => {
    await assert.rejects(testStep(plugin, { options: { resource } }), /resource|Invalid URL/);
  });
}
