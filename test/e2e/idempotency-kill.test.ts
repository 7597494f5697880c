/**
 * kill -9 in every phase of a request with an Idempotency-Key, inside the step and around it, before and after each
 * await. A repeated request finds that the effect was made once, and gets the complete response.
 */
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, test } from "node:test";
import { makeKey, spawnGateway, type GatewayProcess } from "./gateway-process.ts";

const deadly = join(import.meta.dirname, "deadly");

/** `inner` runs between the step and the surface, `outer` around both. */
const pipeline = `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
log: { level: error }
plugins: { kill: ${JSON.stringify(join(deadly, "kill.ts"))}, line-counter: ${JSON.stringify(join(deadly, "line-counter.ts"))} }
lists:
  once:
    - request-id
    - authenticate
    - { kill: { id: outer } }
    - idempotency
    - { authorize: { require: "workspace:admin" } }
    - { kill: { id: inner } }
unmatched: [request-id]
routes:
  - { path: "/{id}/purchase", methods: [POST], run: [{ use: once }], to: { workspaces: { do: purchase } } }
  - { path: "/{id}/ledger", methods: [POST], run: [{ use: once }], to: line-counter }
`;

/** `conflict`: the first request may still be running. */
type Repeated = "runs" | "replayed" | "conflict";

interface Point {
  readonly at: string;
  readonly repeated: Repeated;
}

const points = (repeated: Repeated, ...at: readonly string[]): Point[] =>
  at.map((each) => ({ at: each, repeated }));
const awaited = (id: string, ...phases: readonly string[]): string[] =>
  phases.flatMap((phase) => [`${id} ${phase}`, `${id} ${phase} later`]);

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly replayed: boolean;
}

interface Shop extends Disposable {
  readonly folder: string;
  readonly data: string;
  readonly start: () => Promise<GatewayProcess>;
  readonly workspaceId: string;
  readonly key: string;
}

async function openShop(): Promise<Shop> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-kill-"));
  const data = join(folder, "data");
  const configFile = join(folder, "pipeline.yaml");
  writeFileSync(configFile, pipeline);
  const { workspaceId, key } = await makeKey(data, ["workspace:admin"]);
  return {
    folder,
    data,
    workspaceId,
    key,
    start: () => spawnGateway(configFile, { DATA_DIR: data }),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Undefined if the connection broke before the answer was complete. */
async function send(
  { url }: GatewayProcess,
  shop: Shop,
  request: { readonly path: string; readonly body: string; readonly key: string },
  kill?: string,
): Promise<Answer | undefined> {
  let response: Response;
  let text: string;
  try {
    response = await fetch(`${url}/${shop.workspaceId}/${request.path}`, {
      method: "POST",
      body: request.body,
      headers: {
        authorization: `Bearer ${shop.key}`,
        "content-type": "application/json",
        "idempotency-key": `gateway_${request.key}`,
        ...(kill !== undefined && { "x-kill": kill }),
      },
    });
    text = await response.text();
  } catch {
    return undefined;
  }
  const { status, headers } = response;
  return { status, text, replayed: headers.get("idempotent-replayed") === "true" };
}

/** Ends the lease of the slot under this key, as happens 60 s after its owner died. */
function endLease(shop: Shop, key: string): void {
  const db = new DatabaseSync(join(shop.data, "state.db"), { timeout: 5_000 });
  const ended = db
    .prepare("UPDATE idempotency_slots SET until = ? WHERE key = ? AND owner IS NOT NULL")
    .run(Date.now(), `gateway_${key}`);
  db.close();
  assert.equal(ended.changes, 1);
}

async function killAt(
  shop: Shop,
  all: readonly Point[],
  path: string,
  check: (point: Point, index: number, answers: readonly Answer[]) => void,
): Promise<void> {
  let gateway = await shop.start();
  for (const [index, point] of all.entries()) {
    const request = { path, body: `{"amount_cu_milli":${index + 1}}`, key: String(index) };
    const cut = await send(gateway, shop, request, point.at);
    assert.deepEqual(await gateway.exited, [null, "SIGKILL"], point.at);
    gateway = await shop.start();
    const [again, once_more] = [
      await send(gateway, shop, request),
      await send(gateway, shop, request),
    ];
    assert.ok(again !== undefined && once_more !== undefined);
    if (cut !== undefined) assert.equal(again.text, cut.text, "the client got the same response");
    check(point, index, [again, once_more]);
    if (point.repeated !== "conflict") continue;
    endLease(shop, request.key);
    const renewed = await send(gateway, shop, request);
    assert.deepEqual([renewed?.status, renewed?.replayed], [200, false], point.at);
  }
  gateway.child.kill("SIGKILL");
  await gateway.exited;
  const reached = readFileSync(join(shop.folder, "reached"), "utf8").split("\n").length - 1;
  assert.equal(reached, all.length);
}

describe(
  "a gateway that is killed at every point of an exchange",
  { concurrency: 2, timeout: 400_000 },
  () => {
    for (const id of ["inner", "outer"]) {
      test(`makes a purchase once if the kill happens in the ${id} step`, async () => {
        using shop = await openShop();
        const all = [
          ...points("runs", ...awaited(id, "requestHeaders", "requestBody")),
          // The surface has been called and has not answered yet.
          ...points("runs", `${id} before`, `${id} after`),
          // The transaction is still open until the idempotency step has got the answer.
          ...points(id === "inner" ? "runs" : "replayed", `${id} answered`),
          ...points("replayed", ...awaited(id, "responseHeaders", "responseEnd")),
          ...points("replayed", `${id} responseChunk`, `${id} settled`),
        ];
        await killAt(shop, all, "purchase", (point, index, [again, more]) => {
          assert.equal(again?.status, 200, point.at);
          assert.equal(again.replayed, point.repeated === "replayed", point.at);
          assert.deepEqual(more, { ...again, replayed: true }, point.at);
          const db = new DatabaseSync(join(shop.data, "state.db"), { timeout: 5_000 });
          const made = db
            .prepare("SELECT details ->> 'purchaseId' AS id FROM changes WHERE details LIKE ?")
            .all(`%"amountCuMilli":${index + 1}}`);
          db.close();
          assert.equal(made.length, 1, point.at);
          const answer = JSON.parse(again.text) as { purchase_id: string };
          assert.equal(answer.purchase_id, made[0]?.["id"], point.at);
        });
      });
    }

    // Once the slot is taken, nobody knows whether the surface has begun or ended.
    const ways: Readonly<Record<string, readonly Point[]>> = {
      ledger: [
        ...points("runs", "outer before", "inner requestBody later"),
        ...points("conflict", "inner before", "inner after", "inner answered"),
        ...points("replayed", "outer answered", "inner responseHeaders", "outer settled"),
      ],
      "ledger?streamed": [
        ...points("conflict", "inner responseHeaders later", "inner responseChunk"),
        ...points("conflict", "outer responseChunk", ...awaited("inner", "responseEnd")),
        ...points("replayed", "outer responseEnd", "outer answered", "inner settled"),
      ],
    };
    for (const [path, all] of Object.entries(ways)) {
      test(`does not repeat the work of ${path} outside the store while its slot is held`, async () => {
        using shop = await openShop();
        let done = 0;
        await killAt(shop, all, path, (point, _, [again, more]) => {
          const file = join(shop.folder, "effects");
          const effects = existsSync(file) ? readFileSync(file, "utf8").length / 7 : 0;
          const isConflict = point.repeated === "conflict";
          assert.equal(again?.status, isConflict ? 409 : 200, point.at);
          assert.equal(again.replayed, point.repeated === "replayed", point.at);
          assert.deepEqual(more, { ...again, replayed: !isConflict }, point.at);
          assert.ok(effects - done <= 1, `${point.at}: ${effects - done} times`);
          if (!isConflict) assert.equal(again.text, "effect\n".repeat(effects), point.at);
          // After the lease has ended, the work is done again.
          done = isConflict ? effects + 1 : effects;
        });
      });
    }
  },
);
