/** A process with three threads is killed with SIGKILL while it charges: every answer that it has sent is a charge. */
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { readUsage } from "../../plugins/billing/metering/read-usage.ts";
import { check } from "../checker/checker.ts";
import { nothing, type Call, type Charge } from "../checker/history.ts";
import { spawnGateway } from "../e2e/gateway-process.ts";
import { withFolderAccounts } from "../plugins/billing/accounts/open-accounts.ts";
import { temporaryFolder } from "../store/folder.ts";
import { askWith } from "./ask.ts";

const rounds = 3;
const answersPerRound = 400;
const price = 10;
const pipeline = `version: 1
server: { port: "\${PORT}", threads: 3, drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plans: { enterprise: { rps: 1000000, includedCu: 1000000 } }
routes:
  - { path: /, methods: [GET], run: [request-id, authenticate, { authorize: { require: key } }, { meter: { price: ${price} } }], to: discovery }
`;

/** The limit of the second key, which is used up in the first rounds. */
const limitMilliCu = 3_000;
const capabilities = ["ledger:read"] as const;

type OpenCall = { -readonly [Member in keyof Call]: Call[Member] };

test("after kills of a process with three threads, every answer is a charge, once, and no limit is exceeded", async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, "pipeline.yaml");
  const data = join(folder, "data");
  mkdirSync(data);
  writeFileSync(file, pipeline);
  const keys = await issueKeys(data);
  const calls: OpenCall[] = [];
  let answers = 0;
  for (let round = 0; round < rounds; round++) {
    const { url, child, exited } = await spawnGateway(file, { DATA_DIR: data });
    const enough = answers + answersPerRound;
    const client = (key: IssuedKey): Promise<void> => {
      let call: OpenCall | undefined;
      return askWith(
        url,
        key.key,
        ({ status, requestId }) => {
          assert.equal(requestId, call?.id);
          const isAnswered = status === 200;
          assert.ok(isAnswered || (status === 429 && key === keys[1]), `${key.id}: ${status}`);
          const end = { end: Date.now(), status, isWhole: true, milliCu: isAnswered ? price : 0 };
          if (call !== undefined) Object.assign(call, end);
          if (isAnswered) answers++;
          if (answers >= enough) child.kill("SIGKILL");
          return answers < enough && isAnswered;
        },
        () => {
          call = sentCall(`${round}-${calls.length}`, key.id);
          calls.push(call);
          return call.id;
        },
      );
    };
    await Promise.all(Array.from({ length: 12 }, () => keys.map(client)).flat());
    assert.deepEqual(await exited, [null, "SIGKILL"]);
  }
  const charges = Array.from(readUsage(data), (row): Charge => ({
    requestId: row.requestId,
    keyId: row.keyId,
    workspaceId: "",
    milliCu: row.usedMilliCu,
  }));
  const [, limited] = keys;
  const scopes = [{ kind: "key", id: limited.id, limitMilliCu, isFixed: true }] as const;
  const violations = check({ ...nothing, calls, charges, scopes });
  assert.deepEqual(
    Object.fromEntries(Object.entries(violations).filter(([, all]) => all.length)),
    {},
  );
  assert.ok(calls.some(({ status }) => status === 429));
});

function sentCall(id: string, keyId: string): OpenCall {
  return {
    id,
    replica: "",
    keyId,
    workspaceId: "",
    start: Date.now(),
    end: Infinity,
    status: 0,
    isWhole: false,
    milliCu: 0,
    maxMilliCu: price,
  };
}

interface IssuedKey {
  readonly id: string;
  readonly key: string;
}

function issueKeys(data: string): Promise<[IssuedKey, IssuedKey]> {
  return withFolderAccounts(data, async (store) => {
    const by = { actor: "test", at: Date.now() };
    const { id } = await store.createWorkspace({ name: "x", plan: "enterprise" }, by);
    const issue = async (cuLimit24hMilli?: number): Promise<IssuedKey> => {
      const wanted = { workspaceId: id, name: "x", environment: "dev", capabilities } as const;
      const issued = await store.createKey({ ...wanted, cuLimit24hMilli }, by);
      if (!("text" in issued)) throw new Error(issued.message);
      return { id: issued.key.id, key: issued.text };
    };
    return [await issue(), await issue(limitMilliCu)];
  });
}
