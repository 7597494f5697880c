/** The view Plugins in a real Chromium, over a gateway with third-party plugins and live traffic. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, signIn } from "./gateway.ts";
import { startWithPlugins } from "./plugins-gateway.ts";

test("only platform administrators read the list of plugins", async () => {
  await using gateway = await startWithPlugins();
  const { status } = await ask(gateway, "plugins");
  assert.equal(status, 401);
  const tenant = await gateway.issue({ plan: "enterprise", capabilities: ["workspace:admin"] });
  const denied = await ask(gateway, "plugins", { cookie: await signIn(gateway, tenant.key) });
  assert.equal(denied.status, 403);
  const { body } = await ask(gateway, "plugins", { cookie: await signIn(gateway, gateway.key) });
  const dice = body.plugins.find(({ name }: { name: string }) => name === "acme-dice");
  assert.deepEqual(
    [dice.kind, dice.version, dice.contract, dice.origin, dice.source, dice.has_grants],
    ["tools", "2.3.4", "^1.1", "package", "acme-kit/dice", true],
  );
  assert.deepEqual(dice.grants, {
    services: [],
    hosts: ["dice.acme.com:443"],
    env: ["ACME_KEY"],
    body: "none",
    deployment: [],
  });
});
