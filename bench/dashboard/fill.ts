/** Makes a data folder with many keys and a year of charges. The rows are inserted directly, many per transaction. */
import type { DatabaseSync } from "node:sqlite";
import { chargeText } from "../../plugins/billing/metering/charge-text.ts";
import { openChargesDatabase } from "../../plugins/billing/metering/journal-schema.ts";
import { maxRecordBytes, writeCharge } from "../../plugins/billing/metering/records.ts";
import { Sums } from "../../plugins/billing/metering/sums.ts";
import { addDuration } from "../../plugins/dashboard/dashboard/history/histogram.ts";
import {
  createHistoryStore,
  keepMs,
  spanMs,
  type HistoryRow,
} from "../../plugins/dashboard/dashboard/history/store.ts";
import { newSum } from "../../plugins/dashboard/dashboard/history/sums.ts";
import { systemClock } from "../../src/base/clock.ts";
import { shippedTables } from "../../src/pipeline/load/databases.ts";
import { openSqliteSql } from "../../src/store/sql/sqlite-sql.ts";
import { stateFileOf } from "../../src/store/sql/state-file.ts";
import { transaction } from "../../src/store/sqlite.ts";
import { withFolderAccounts } from "../../test/plugins/billing/accounts/open-accounts.ts";
import { createRandom, type Random } from "../soak/random.ts";

export interface Amount {
  readonly workspaces: number;
  readonly keys: number;
  readonly chargesPerDay: number;
  readonly days: number;
  readonly routes: number;
  readonly models: number;
}

export interface Filled {
  readonly adminKey: string;
  readonly workspaceId: string;
  readonly someKey: string;
}

const workspaceNames = ["Search team", "Support bots", "Wallet app", "Research", "Block explorer"];
const modelNames = [
  "Qwen/Qwen3-32B",
  "meta/Llama-3.3-70B",
  "deepseek/DeepSeek-V3",
  "google/Gemma-3",
];
const routeNames = ["/v1/ledger/rpc", "/v1/chat/completions", "/mcp", "/rpc"];
const methodNames = ["chain_getBlock", "state_getStorage", "system_health", "chain_getHeader"];
const toolNames = ["ledger_getBlock", "ledger_getAccount", "search_docs", "inference_models"];
const agentNames = ["Planner", "Indexer", "Support agent", "Nightly report"];

const dayMs = 86_400_000;
const chargesPerCommit = 20;
const commitsPerTransaction = 5_000;
/** A charge costs 1,000 milli-CU on average. */
const windows = { cuLimit24hMilli: 10_000, cuLimit30dMilli: 200_000 };

export async function fillDataFolder(
  dataDir: string,
  amount: Amount,
  now: number,
): Promise<number> {
  const random = createRandom(1);
  const keys = await makeKeys(dataDir, amount, now - amount.days * dayMs);
  const charges = makeCharges(dataDir, amount, keys, random, now);
  await makeHistory(dataDir, amount, random, now);
  return charges;
}

interface Key {
  readonly id: string;
  readonly workspaceId: string;
}

/** Number of keys that are created at the same time, so that they share commits. */
const keysAtOnce = 1_000;

function makeKeys(dataDir: string, { workspaces, keys }: Amount, at: number): Promise<Key[]> {
  return withFolderAccounts(dataDir, async (store) => {
    const by = { at, actor: "bench", requestId: undefined };
    const ids: string[] = [];
    for (let n = 0; n < workspaces; n++) {
      const name = workspaceNames[n] ?? `Workspace ${n}`;
      ids.push((await store.createWorkspace({ name, plan: "enterprise" }, by)).id);
    }
    const create = async (n: number): Promise<Key> => {
      const workspaceId = ids[n % ids.length] ?? "";
      const about = { workspaceId, name: `key ${n}`, environment: "dev" } as const;
      const wanted = { ...about, ...windows, capabilities: ["ledger:read"] } as const;
      const issued = await store.createKey(wanted, by);
      if (!("text" in issued)) throw new Error("a key was not created");
      return { id: issued.key.id, workspaceId };
    };
    const made: Key[] = [];
    while (made.length < keys) {
      const length = Math.min(keysAtOnce, keys - made.length);
      made.push(...(await Promise.all(Array.from({ length }, (_, n) => create(made.length + n)))));
    }
    return made;
  });
}

export function addAdministrator(dataDir: string, at: number): Promise<Filled> {
  return withFolderAccounts(dataDir, async (store) => {
    const [first] = await store.listKeys();
    if (first === undefined) throw new Error("expected a data folder with keys");
    const { id: someKey, workspaceId } = first;
    const about = { workspaceId, name: "operator", environment: "dev" } as const;
    const by = { at, actor: "bench", requestId: undefined };
    const issued = await store.createKey({ ...about, capabilities: ["platform:admin"] }, by);
    if (!("text" in issued)) throw new Error("a key was not created");
    return { adminKey: issued.text, workspaceId, someKey };
  });
}

/** Adds charges at even intervals, with random keys and names. Returns their number. */
function makeCharges(
  dataDir: string,
  amount: Amount,
  keys: readonly Key[],
  random: Random,
  now: number,
): number {
  const { chargesPerDay, days } = amount;
  const db = openChargesDatabase(dataDir);
  try {
    db.exec("PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 10000");
    const names = new Names();
    const keyNames = keys.map(
      ({ id, workspaceId }) => [names.of(id), names.of(workspaceId)] as const,
    );
    const models = numbered(names, modelNames, amount.models, "model");
    const methods = numbered(names, methodNames, 40, "method");
    const tools = numbered(names, toolNames, 20, "tool");
    const routes = numbered(names, routeNames, Math.min(amount.routes, 10), "route");
    const agents = namesOf(agentNames, 20, "agent");
    const [rpc, mcp, chat] = [names.of("ledger-rpc"), names.of("mcp"), names.of("chat")];
    const completions = names.of("completions");
    const put = db.prepare("INSERT INTO commits VALUES (?, ?, ?, ?)");
    const sums = Sums.load(db);
    const bytes = Buffer.alloc(chargesPerCommit * maxRecordBytes);
    const target = { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.length) };
    const all = chargesPerDay * days;
    const first = now - days * dayMs;
    const stepMs = (days * dayMs) / all;
    names.store(db);
    let made = 0;
    let seq = 0;
    const commit = (): void => {
      let end = 0;
      const firstAt = Math.floor(first + made * stepMs);
      let time = firstAt;
      for (let n = 0; n < chargesPerCommit && made < all; n++, made++) {
        time = Math.floor(first + made * stepMs);
        const [key, workspace] = random.pick(keyNames);
        const kind = random.int(3);
        const agent = random.int(4) === 0 ? agentNamed(random.pick(agents)) : undefined;
        end += writeCharge(target, end, {
          key,
          workspace,
          surface: kind === 0 ? rpc : kind === 1 ? mcp : chat,
          method: kind === 0 ? random.pick(methods) : kind === 1 ? random.pick(tools) : completions,
          model: kind === 2 ? random.pick(models) : 0,
          outcome: 0,
          time,
          split: {
            includedMilliCu: random.int(2_000),
            purchasedMilliCu: 0,
            overageMilliCu: 0,
          },
          inputTokens: kind === 2 ? random.int(4_000) : 0,
          outputTokens: kind === 2 ? random.int(1_000) : 0,
          cachedTokens: 0,
          reasoningTokens: 0,
          estimated: false,
          route: random.pick(routes),
          intent: 0,
          text: chargeText(`request-${made}`, agent),
        });
      }
      const records = Buffer.from(bytes.subarray(0, end));
      put.run(++seq, firstAt, time, records);
      sums.add(records);
    };
    while (made < all) {
      transaction(db, () => {
        for (let n = 0; n < commitsPerTransaction && made < all; n++) commit();
        sums.write(db, seq);
      });
      sums.written();
    }
    return made;
  } finally {
    db.close();
  }
}

function agentNamed(name: string): Parameters<typeof chargeText>[1] {
  return {
    name,
    version: undefined,
    sessionId: undefined,
    provider: undefined,
    capabilities: undefined,
  };
}

/** The table `names` of the journal. */
class Names {
  readonly #ids = new Map<string, number>();

  of(name: string): number {
    const known = this.#ids.get(name) ?? this.#ids.size + 1;
    this.#ids.set(name, known);
    return known;
  }

  store(db: DatabaseSync): void {
    const put = db.prepare("INSERT INTO names VALUES (?, ?)");
    transaction(db, () => {
      for (const [name, id] of this.#ids) put.run(id, name);
    });
  }
}

function namesOf(list: readonly string[], count: number, what: string): string[] {
  return Array.from({ length: count }, (_, n) => list[n] ?? `${what}-${n}`);
}

function numbered(names: Names, list: readonly string[], count: number, what: string): number[] {
  return namesOf(list, count, what).map((name) => names.of(name));
}

async function makeHistory(
  dataDir: string,
  amount: Amount,
  random: Random,
  now: number,
): Promise<void> {
  const sql = await openSqliteSql(stateFileOf(dataDir, await shippedTables()), systemClock);
  const store = createHistoryStore(sql);
  try {
    for (const [span, ms] of Object.entries(spanMs) as ["minute" | "hour", number][]) {
      for (let at = Math.floor((now - keepMs[span]) / ms) * ms; at < now; at += ms) {
        await store.write(historyRows(span, at, amount, random));
      }
    }
  } finally {
    await sql.close();
  }
}

function historyRows(
  span: "minute" | "hour",
  at: number,
  { routes, models }: Amount,
  random: Random,
): HistoryRow[] {
  const kinds = {
    all: [""],
    route: namesOf(routeNames, routes, "route"),
    upstream: ["node", "model"],
    model: namesOf(modelNames, models, "model"),
  };
  // Less is done at night.
  const hour = new Date(at).getUTCHours();
  const requests = 10 + Math.round(25 * Math.sin((Math.PI * hour) / 24));
  return Object.entries(kinds).flatMap(([kind, names]) =>
    names.map((name) => {
      const sum = newSum();
      for (let request = 0; request < requests; request++) {
        sum.n++;
        addDuration(sum.ms, 5 + random.int(60) + (random.int(40) === 0 ? 300 : 0));
      }
      if (random.int(8) === 0) sum.codes["GATEWAY_RATE_LIMITED"] = 1 + random.int(2);
      if (random.int(200) === 0) sum.failed = 1;
      return { span, at, kind, name, sum: JSON.stringify(sum) };
    }),
  );
}
