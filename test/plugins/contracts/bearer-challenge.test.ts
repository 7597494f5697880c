import assert from "node:assert/strict";
import { test } from "node:test";
import { bearerChallenge } from "../../../plugins/contracts/bearer-challenge.ts";

const wellKnown = "/.well-known/oauth-protected-resource";

for (const [resource, metadata] of [
  ["https://gateway.test/mcp", `https://gateway.test${wellKnown}/mcp`],
  ["https://gateway.test", `https://gateway.test${wellKnown}`],
  ["https://gateway.test/", `https://gateway.test${wellKnown}`],
  [
    "http://gateway.test:8080/a/mcp?tenant=1",
    `http://gateway.test:8080${wellKnown}/a/mcp?tenant=1`,
  ],
] as const) {
  test(`the challenge of ${resource} names ${metadata}`, () => {
    assert.equal(
      bearerChallenge(new URL(resource), undefined),
      `Bearer resource_metadata="${metadata}"`,
    );
  });
}

test("a challenge has an error code only if a token was sent", () => {
  const challenge = bearerChallenge(new URL("https://gateway.test/mcp"), "Bearer a.b.c");
  assert.ok(challenge.startsWith('Bearer error="invalid_token", resource_metadata="https://'));
});
