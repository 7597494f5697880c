/** The guarantees for API keys, with a whole gateway, while another process changes them. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import type { ChangeAuthor } from "sluice-gateway/services";
import type { AccountStore, KeySettings } from "../../plugins/billing/accounts/account-store.ts";
import { manualClock, type ManualClock } from "../../src/testing/clock.ts";
import { followed, openFolderAccounts } from "../plugins/billing/accounts/open-accounts.ts";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";

const hour = 3_600_000;
const day = 24 * hour;
/** Maximum time that a running gateway may take to follow a change. */
const second = 1_000;

/** A call costs 500 milli-CU. */
const pipeline = `
version: 1
server: { port: "\${PORT}", trustProxy: [127.0.0.1] }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
lists:
  keyed: [request-id, authenticate, rate-limit, { authorize: { require: key } }, { meter: { price: 500 } }]
unmatched: [request-id]
routes:
  - { path: /call, methods: [GET], run: [{ use: keyed }], to: discovery }
`;

interface Keyed extends AsyncDisposable {
  readonly gateway: TestGateway;
  readonly clock: ManualClock;
  /** The settings as a command in another process has them. */
  readonly store: AccountStore;
  readonly by: () => ChangeAuthor;
  readonly set: (settings: KeySettings) => Promise<void>;
  /** Returns the status, or the code and message of a refusal. */
  readonly call: (key?: string, from?: string) => Promise<number | string>;
}

async function start(): Promise<Keyed> {
  const clock = manualClock();
  const gateway = await startTestGateway({ pipeline, clock, account: { createdAt: clock.now() } });
  const stack = new AsyncDisposableStack();
  const closing = { after: (close: () => Promise<void>) => stack.defer(close) };
  const { store } = await openFolderAccounts(closing, join(gateway.folder, "data"), clock);
  const by = (): ChangeAuthor => ({ actor: "test", at: clock.now() });
  return {
    gateway,
    clock,
    store,
    by,
    async set(settings) {
      assert.ok("id" in (await store.setKey(gateway.keyId, settings, by())));
      clock.advance(second);
      await followed(gateway.gateway);
    },
    async call(key = gateway.key, from = "192.0.2.1") {
      const response = await fetch(`${gateway.url}/call`, {
        headers: { authorization: `Bearer ${key}`, "x-forwarded-for": from },
      });
      const body = (await response.json()) as Record<string, unknown>;
      if (response.ok) return response.status;
      return `${response.status} ${String(body["error_code"])} ${JSON.stringify(body["details"] ?? body["error"])}`;
    },
    async [Symbol.asyncDispose]() {
      await stack.disposeAsync();
      await gateway[Symbol.asyncDispose]();
    },
  };
}

const expired = '401 GATEWAY_UNAUTHORIZED "api key has expired"';
const outOfPlace = '403 GATEWAY_PERMISSION_DENIED "api key not allowed from this address"';

test("rotation: both keys work until the overlap ends, then only the successor, with the same limits", async () => {
  await using keyed = await start();
  const { gateway, clock, store, by, set, call } = keyed;
  await set({ rpsLimit: 3, cuLimit24hMilli: 1_500, allowedAddresses: ["192.0.2.0/24"] });
  const issued = await store.rotateKey(gateway.keyId, hour, by());
  assert.ok("text" in issued);
  assert.equal(await call(issued.text), 200);
  assert.equal(await call(issued.text, "198.51.100.1"), outOfPlace);
  clock.advance(hour - 1);
  assert.equal(await call(), 200);
  clock.advance(1);
  assert.equal(await call(), expired);
  assert.deepEqual([await call(issued.text), await call(issued.text)], [200, 200]);
  assert.match(
    String(await call(issued.text)),
    /^429 GATEWAY_CU_LIMIT_EXCEEDED .*"limit_cu_milli":1500/,
  );
});

test("expiry: a key expires at its exact time, and a later time can be set before that", async () => {
  await using keyed = await start();
  const { clock, set, call } = keyed;
  await set({ expiresAt: clock.now() + hour });
  clock.advance(hour - second - 1);
  assert.equal(await call(), 200);
  await set({ expiresAt: null });
  clock.advance(day);
  assert.equal(await call(), 200);
  await set({ expiresAt: clock.now() + hour });
  clock.advance(hour);
  assert.equal(await call(), expired);
});

test("credit: the limits of 24 hours and 30 days refuse a key, and become free again with time", async () => {
  await using keyed = await start();
  const { clock, set, call } = keyed;
  const refused = (window: string, limit: number, used = limit): string =>
    `429 GATEWAY_CU_LIMIT_EXCEEDED ${JSON.stringify({ window, used_cu_milli: used, limit_cu_milli: limit })}`;
  await set({ cuLimit24hMilli: 1_000, cuLimit30dMilli: 1_500 });
  assert.deepEqual([await call(), await call(), await call()], [200, 200, refused("24h", 1_000)]);
  clock.advance(day + 60_000);
  assert.deepEqual([await call(), await call()], [200, refused("30d", 1_500)]);
  await set({ cuLimit30dMilli: 2_000 });
  assert.deepEqual([await call(), await call()], [200, refused("30d", 2_000)]);
  await set({ cuLimit24hMilli: null, cuLimit30dMilli: null });
  assert.equal(await call(), 200);
});

test("last use: it is written once per minute and when the gateway stops, not with each request", async () => {
  const keyed = await start();
  const { gateway, clock, store, call } = keyed;
  const lastUsedAt = async (): Promise<number | undefined> =>
    (await store.findKey(gateway.keyId))?.lastUsedAt;
  const first = clock.now();
  await call();
  clock.advance(59_999);
  assert.equal(await lastUsedAt(), undefined);
  clock.advance(1);
  await followed(gateway.gateway);
  assert.equal(await lastUsedAt(), first);
  const last = clock.now();
  await call();
  await gateway.gateway.stop();
  assert.equal(await lastUsedAt(), last);
  await keyed[Symbol.asyncDispose]();
});
