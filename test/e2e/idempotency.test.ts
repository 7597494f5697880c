/** Idempotency-Key on the shipped routes, through a whole gateway: every row of the specification's table. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { after, before, test } from "node:test";
import { manualClock, type ManualClock } from "../../src/testing/clock.ts";
import {
  startTestGateway,
  type TestGateway,
  type TestKey,
} from "../../plugins/contracts/testing.ts";
import { startWorker } from "../plugins/inference/networks/scripted-worker.ts";
import { withFolderAccounts } from "../plugins/billing/accounts/open-accounts.ts";
import { withFolderSql } from "../store/open-sql.ts";
import { ask } from "./ask.ts";
import { shipped as shippedPipeline } from "./shipped-gateway.ts";

const shipped = shippedPipeline
  .replaceAll(/^ {4}- access-log.*$/gm, "")
  .replace("access-log, ", "");
const hour = 3_600_000;
const mebibyte = 1024 * 1024;

interface Shipped extends AsyncDisposable {
  readonly gateway: TestGateway;
  readonly clock: ManualClock;
  readonly admin: TestKey;
  readonly platform: TestKey;
  readonly post: (action: string, body: string, more?: More) => Promise<Answer>;
  /** Recorded actions in order, without the creation of keys and workspaces. */
  readonly done: () => Promise<string[]>;
}

interface More {
  readonly idempotencyKey?: string;
  /** Empty to send none. */
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly method?: string;
}

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly code: unknown;
  readonly contentType: unknown;
  readonly replayed: unknown;
  readonly requestId: unknown;
}

/** The clock does not advance: the bucket of a platform key, with 200 requests per second, holds 400. */
const time = manualClock();
const open = (env: Readonly<Record<string, string>>): Promise<TestGateway> =>
  startTestGateway({ pipeline: shipped, env: { LOG_LEVEL: "silent", ...env }, clock: time });

/** The gateway of the tests that need no model server. Each test has its own workspace and keys. */
let shared: TestGateway;
before(async () => void (shared = await open({})));
after(() => shared[Symbol.asyncDispose]());

async function start(env?: Readonly<Record<string, string>>): Promise<Shipped> {
  const gateway = env === undefined ? shared : await open(env);
  const allDone = async (): Promise<string[]> => {
    const changes = await withFolderAccounts(`${gateway.folder}/data`, (store) => store.changes());
    return changes.map(({ action }) => action).filter((action) => !action.endsWith(".create"));
  };
  const earlier = (await allDone()).length;
  const createdAt = time.now();
  const admin = await gateway.issue({
    plan: "startup",
    capabilities: ["workspace:admin"],
    createdAt,
  });
  const platform = await gateway.issue({ capabilities: ["platform:admin"], createdAt });
  return {
    gateway,
    clock: time,
    admin,
    platform,
    async post(action, body, { idempotencyKey, key = admin.key, headers, method = "POST" } = {}) {
      const path = action.startsWith("/")
        ? action
        : `/tma/workspaces/${admin.workspaceId}/${action}`;
      const answer = await ask(gateway.url + path, {
        method,
        body,
        key: key === "" ? null : key,
        headers: {
          ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
          ...headers,
        },
      });
      const { status, text } = answer;
      return {
        status,
        text,
        code: text.startsWith("{") ? answer.json.error_code : undefined,
        contentType: answer.headers["content-type"],
        replayed: answer.headers["idempotent-replayed"] ?? null,
        requestId: answer.headers["x-request-id"],
      };
    },
    done: async () => (await allDone()).slice(earlier),
    async [Symbol.asyncDispose]() {
      if (gateway !== shared) await gateway[Symbol.asyncDispose]();
    },
  };
}

const buy = '{"amount_cu_milli":700}';
const idempotencyKey = "gateway_one";

function isReplayOf(again: Answer, first: Answer): void {
  const { status, text, contentType } = first;
  assert.deepEqual(
    [again.status, again.text, again.contentType, again.replayed],
    [status, text, contentType, "true"],
  );
}

test("a repeated request gets the stored response for 24 hours, and then runs again", async () => {
  await using shop = await start();
  const { post, clock, done } = shop;
  const first = await post("cu/purchase", buy, { idempotencyKey });
  assert.deepEqual([first.status, first.replayed], [200, null]);
  isReplayOf(await post("cu/purchase", buy, { idempotencyKey }), first);
  clock.jump(24 * hour - 1);
  const late = await post("cu/purchase", buy, { idempotencyKey });
  isReplayOf(late, first);
  assert.notEqual(late.requestId, first.requestId);
  assert.deepEqual(await done(), ["workspace.purchase"]);
  clock.jump(1);
  const anew = await post("cu/purchase", buy, { idempotencyKey });
  assert.deepEqual([anew.status, anew.replayed], [200, null]);
  assert.notEqual(anew.text, first.text);
  assert.deepEqual(await done(), ["workspace.purchase", "workspace.purchase"]);
});

test("all five routes honour the header, and each of them replays", async () => {
  await using worker = await startWorker({ models: ["m"] });
  await using shop = await start({ CONFIDENTIAL_CLASSIC_URL: worker.url, TOKEN_USD_RATE: "0.5" });
  const { post, platform, done } = shop;
  const models = { key: platform.key, method: "PUT" };
  const routes: readonly (readonly [string, string, More?])[] = [
    ["upgrade", '{"plan":"enterprise"}'],
    ["downgrade", '{"plan":"free"}'],
    ["cancel-downgrade", "{}"],
    ["cu/purchase", buy],
    [
      "/v1/admin/confidential/confidential-classic/models",
      '{"models":[{"id":"extra","enabled":true}]}',
      models,
    ],
  ];
  for (const [index, [action, body, more]] of routes.entries()) {
    const with_ = { ...more, idempotencyKey: `gateway_${index}` };
    const first = await post(action, body, with_);
    assert.equal(first.status, 200, first.text);
    isReplayOf(await post(action, body, with_), first);
  }
  const catalogue = await post(routes[4]![0], routes[4]![1], {
    ...models,
    idempotencyKey: "gateway_4",
  });
  assert.match(catalogue.text, /"id":"extra"/);
  assert.equal((await done()).length, routes.length);
});

test("no other route honours the header, well-formed or not", async () => {
  await using worker = await startWorker({ models: ["m"] });
  await using shop = await start({ CONFIDENTIAL_CLASSIC_URL: worker.url, TOKEN_USD_RATE: "0.5" });
  const { post, gateway } = shop;
  const chat = (content: string): string =>
    JSON.stringify({ model: "m", messages: [{ role: "user", content }] });
  const list = (id: number): string => JSON.stringify({ jsonrpc: "2.0", id, method: "tools.list" });
  const ping = (id: number): string => JSON.stringify({ jsonrpc: "2.0", id, method: "ping" });
  const routes: readonly (readonly [string, readonly string[]])[] = [
    ["/v1/chat/completions", [chat("one"), chat("one"), chat("other")]],
    ["/rpc", [list(1), list(1), list(2)]],
    ["/mcp", [ping(1), ping(1), ping(2)]],
  ];
  for (const key of [idempotencyKey, "malformed"]) {
    for (const [path, bodies] of routes) {
      for (const body of bodies) {
        const { status, replayed } = await post(path, body, {
          key: gateway.key,
          idempotencyKey: key,
        });
        assert.deepEqual([status, replayed], [200, null], `${path} ${body}`);
      }
    }
  }
  const [slots] = await withFolderSql(`${gateway.folder}/data`, (sql) =>
    sql.query("SELECT count(*) AS n FROM sluice.idempotency_slots"),
  );
  assert.equal(slots?.["n"], 0);
});

test("another body, path or query with the same key gets 422; another API key has its own slots", async () => {
  await using shop = await start();
  const { post, platform, done } = shop;
  await post("cu/purchase", buy, { idempotencyKey });
  const mismatch = [422, "GATEWAY_IDEMPOTENCY_KEY_MISMATCH"];
  const others: readonly (readonly [string, string])[] = [
    ["cu/purchase", '{"amount_cu_milli":701}'],
    ["cu/purchase", `${buy} `],
    ["cu/purchase?a", buy],
    ["upgrade", buy],
  ];
  for (const [action, body] of others) {
    const { status, code, replayed } = await post(action, body, { idempotencyKey });
    assert.deepEqual([status, code, replayed], [...mismatch, null], action);
  }
  const other = await post("cu/purchase", buy, { idempotencyKey, key: platform.key });
  assert.deepEqual([other.status, other.replayed], [200, null]);
  assert.equal((await done()).length, 2);
});

test("refusals of the surface are stored, and refusals of the steps are not", async () => {
  await using shop = await start();
  const { post, gateway, admin } = shop;
  const conflict = await post("cancel-downgrade", "{}", { idempotencyKey });
  assert.deepEqual([conflict.status, conflict.code], [409, "GATEWAY_CONFLICT"]);
  await post("downgrade", '{"plan":"free"}');
  isReplayOf(await post("cancel-downgrade", "{}", { idempotencyKey }), conflict);

  const violation = { idempotencyKey: "gateway_two" };
  const bad = await post("cu/purchase", "{}", violation);
  assert.deepEqual([bad.status, bad.code], [400, "GATEWAY_INVALID_PARAMS"]);
  isReplayOf(await post("cu/purchase", "{}", violation), bad);

  const three = { idempotencyKey: "gateway_three" };
  const stranger = await gateway.issue({});
  const denied = await post("cu/purchase", buy, { ...three, key: stranger.key });
  assert.equal(denied.code, "GATEWAY_PERMISSION_DENIED");
  const text = await post("cu/purchase", buy, {
    ...three,
    headers: { "content-type": "text/plain" },
  });
  assert.equal(text.status, 415);
  const large = await post("cu/purchase", " ".repeat(mebibyte) + buy, three);
  assert.deepEqual([large.status, large.code], [400, "GATEWAY_INVALID_PARAMS"]);
  const served = await post("cu/purchase", buy, three);
  assert.deepEqual([served.status, served.replayed], [200, null]);
  const largest = await post("cu/purchase", " ".repeat(mebibyte - buy.length) + buy, {
    idempotencyKey: "gateway_four",
  });
  assert.equal(largest.status, 200);
  assert.ok(admin.key !== stranger.key);
});

test("the header without a valid API key gets 400, a request without the header 401; a malformed header gets 400 before the capability is checked", async () => {
  await using shop = await start();
  const { post, gateway, clock, done } = shop;
  const invalid = [400, "GATEWAY_INVALID_IDEMPOTENCY_KEY"];
  const refusal = async (more: More): Promise<readonly unknown[]> => {
    // By now the bucket of the address is full again.
    clock.advance(60_000);
    const { status, code } = await post("cu/purchase", buy, more);
    return [status, code];
  };
  const unknown = `gateway_dev_${"0".repeat(32)}`;
  for (const key of ["", unknown, "nonsense"]) {
    assert.deepEqual(await refusal({ key, idempotencyKey }), invalid);
    assert.deepEqual(await refusal({ key }), [401, "GATEWAY_UNAUTHORIZED"]);
  }
  const longest = `gateway_${"k".repeat(255 - 8)}`;
  for (const wrong of [
    "",
    "one",
    "Gateway_one",
    "gateway_a b",
    "gateway_a\tb",
    "gateway_ä",
    `${longest}k`,
  ]) {
    assert.deepEqual(await refusal({ idempotencyKey: wrong }), invalid, wrong);
  }
  const stranger = (await gateway.issue({})).key;
  assert.deepEqual(await refusal({ key: stranger, idempotencyKey: "one" }), invalid);
  assert.deepEqual(await done(), []);
  assert.equal((await post("cu/purchase", buy, { idempotencyKey: longest })).status, 200);
});

test("of 100 requests at once with one key, one is executed, and the others are replays or conflicts", async () => {
  await using shop = await start();
  const { post, platform, done } = shop;
  const asking = Array.from({ length: 100 }, () =>
    post("cu/purchase", buy, { idempotencyKey, key: platform.key }),
  );
  const answers = await Promise.all(asking);
  const executed = answers.filter(({ status, replayed }) => status === 200 && replayed === null);
  assert.equal(executed.length, 1);
  const [first] = executed;
  assert.ok(first !== undefined);
  for (const answer of answers.filter((each) => each !== first)) {
    if (answer.status === 409) assert.equal(answer.code, "GATEWAY_CONFLICT");
    else isReplayOf(answer, first);
  }
  assert.deepEqual(await done(), ["workspace.purchase"]);
});

test("a response above 1 MiB reaches its caller but is not stored, so a repeated request runs again", async () => {
  await using worker = await startWorker({ models: [] });
  await using shop = await start({ CONFIDENTIAL_CLASSIC_URL: worker.url, TOKEN_USD_RATE: "0.5" });
  const { post, platform, done } = shop;
  const models = Array.from({ length: 9_000 }, (_, n) => ({ id: `model-${n}`, enabled: true }));
  const replace = (): Promise<Answer> =>
    post("/v1/admin/confidential/confidential-classic/models", JSON.stringify({ models }), {
      key: platform.key,
      method: "PUT",
      idempotencyKey,
    });
  const first = await replace();
  assert.equal(first.status, 200);
  assert.ok(first.text.length > mebibyte);
  const again = await replace();
  assert.deepEqual([again.status, again.replayed], [200, null]);
  assert.deepEqual(await done(), ["network.models", "network.models"]);
});

test("a slot survives a reload", async () => {
  await using shop = await start();
  const { post, gateway, done } = shop;
  const first = await post("cu/purchase", buy, { idempotencyKey });
  await gateway.write(shipped.replaceAll("- idempotency", "- idempotency: { prefix: gate }"));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  isReplayOf(await post("cu/purchase", buy, { idempotencyKey }), first);
  assert.equal((await done()).length, 1);
  assert.equal((await post("cu/purchase", buy, { idempotencyKey: "gate" })).status, 200);
});

test("while another process locks the store, requests get 503, nothing runs, and the key stays unused", async () => {
  await using shop = await start();
  const { post, gateway, done } = shop;
  const db = new DatabaseSync(`${gateway.folder}/data/state.db`);
  db.exec("BEGIN IMMEDIATE");
  const locked = await post("cu/purchase", buy, { idempotencyKey });
  assert.deepEqual([locked.status, locked.code], [503, "GATEWAY_SERVICE_UNAVAILABLE"]);
  db.exec("ROLLBACK");
  db.close();
  const served = await post("cu/purchase", buy, { idempotencyKey });
  assert.deepEqual([served.status, served.replayed], [200, null]);
  assert.equal((await done()).length, 1);
});
