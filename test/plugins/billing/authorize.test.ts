import assert from "node:assert/strict";
import { test } from "node:test";
import type { Anonymous, Capability, Principal } from "sluice-gateway/services";
import authorize from "../../../plugins/billing/authorize/index.ts";
import type { Reply } from "../../../src/plugin.ts";
import { bodyOf, fakeExchange, fakeHost, keyPrincipal } from "../fakes.ts";

async function ask(require: "key" | Capability, principal: Principal): Promise<Reply | void> {
  const hooks = await authorize.start({ require }, fakeHost());
  return hooks.requestHeaders?.(fakeExchange({ slots: { principal } }));
}

const reasons: readonly Anonymous["reason"][] = [
  "missing authorization header",
  "invalid authorization format",
  "unauthorized",
  "api key has expired",
];
for (const require of ["key", "ledger:read"] as const) {
  for (const reason of reasons) {
    test(`require ${require}: a caller without a key gets 401 with "${reason}"`, async () => {
      const reply = await ask(require, { kind: "anonymous", reason });
      assert.equal(reply?.status, 401);
      assert.equal(reply?.code, "GATEWAY_UNAUTHORIZED");
      assert.deepEqual(bodyOf(reply), { error: reason, error_code: "GATEWAY_UNAUTHORIZED" });
      assert.deepEqual(reply?.headers, [
        "content-type",
        "application/json",
        "www-authenticate",
        'Bearer realm="gateway"',
      ]);
    });
  }
}

test("a valid key from an address that it is not bound to gets 403 with the reason", async () => {
  const reason = "api key not allowed from this address";
  for (const require of ["key", "ledger:read"] as const) {
    const reply = await ask(require, { kind: "anonymous", reason });
    assert.equal(reply?.status, 403);
    const { error, error_code: code } = bodyOf(reply);
    assert.deepEqual([error, code], [reason, "GATEWAY_PERMISSION_DENIED"]);
  }
});

test("any valid key passes if a key is required", async () => {
  assert.equal(await ask("key", keyPrincipal()), undefined);
});

test("a key with the capability passes", async () => {
  const principal = keyPrincipal({ capabilities: ["docs:read", "inference"] });
  assert.equal(await ask("inference", principal), undefined);
});

test("a key without the capability gets 403 with the name of the capability", async () => {
  const reply = await ask("ledger:read", keyPrincipal({ capabilities: ["ledger:write"] }));
  assert.equal(reply?.status, 403);
  assert.equal(bodyOf(reply)["error_code"], "GATEWAY_PERMISSION_DENIED");
  assert.deepEqual(bodyOf(reply)["details"], { capability: "ledger:read" });
  assert.equal(reply?.reason, "capability ledger:read");
});

test("platform:admin is also accepted for workspace:admin, but for no other capability", async () => {
  const admin = keyPrincipal({ capabilities: ["platform:admin"] });
  assert.equal(await ask("workspace:admin", admin), undefined);
  assert.equal(await ask("platform:admin", admin), undefined);
  for (const other of [
    "ledger:read",
    "ledger:write",
    "platform:read",
    "docs:read",
    "inference",
  ] as const) {
    assert.equal((await ask(other, admin))?.status, 403, other);
  }
});

test("workspace:admin is not accepted for platform:admin", async () => {
  const reply = await ask("platform:admin", keyPrincipal({ capabilities: ["workspace:admin"] }));
  assert.equal(reply?.status, 403);
});
