import assert from "node:assert/strict";
import { test } from "node:test";
import type { Capability, Principal } from "sluice-gateway/services";
import authorize from "../../../plugins/billing/authorize/index.ts";
import type { Reply } from "../../../src/plugin.ts";
import { fakeExchange, fakeHost, keyPrincipal } from "../fakes.ts";

async function ask(require: "key" | Capability, principal: Principal): Promise<Reply | void> {
  const hooks = await authorize.start({ require }, fakeHost());
  return hooks.requestHeaders?.(fakeExchange({ slots: { principal } }));
}

test("platform:admin is also accepted for workspace:admin, but for no other capability, nor the other way", async () => {
  const admin = keyPrincipal({ capabilities: ["platform:admin"] });
  assert.equal(await ask("workspace:admin", admin), undefined);
  assert.equal(await ask("platform:admin", admin), undefined);
  const others = [
    "ledger:read",
    "ledger:write",
    "platform:read",
    "docs:read",
    "inference",
  ] as const;
  for (const other of others) assert.equal((await ask(other, admin))?.status, 403, other);
  const ofWorkspace = keyPrincipal({ capabilities: ["workspace:admin"] });
  assert.equal((await ask("platform:admin", ofWorkspace))?.status, 403);
});
