import assert from "node:assert/strict";
import { test } from "node:test";
import { anonymous, setPrincipal } from "../../../plugins/contracts/principal.ts";
import { fakeExchange, keyPrincipal } from "../fakes.ts";

test("a caller is noted with its workspace, twice its rate, and whether it operates the gateway", () => {
  for (const [capability, isOperator] of [
    ["inference", false],
    ["platform:admin", true],
  ] as const) {
    const x = fakeExchange();
    const principal = keyPrincipal({ id: "oidc_ada", rps: 7, capabilities: [capability] });
    setPrincipal(x, principal);
    assert.equal(x.get("principal"), principal);
    const caller = { id: "oidc_ada", group: "ws_1", burst: 14, isOperator };
    assert.deepEqual(x.facts, { caller });
  }
});

test("an anonymous caller is set and not noted", () => {
  const x = fakeExchange();
  const principal = anonymous("invalid authorization format");
  setPrincipal(x, principal);
  assert.equal(x.get("principal"), principal);
  assert.deepEqual(principal, {
    kind: "anonymous",
    reason: "invalid authorization format",
    cause: "malformed",
  });
  assert.deepEqual(x.facts, {});
});
