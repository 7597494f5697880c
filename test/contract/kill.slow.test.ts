/** A gateway is killed with SIGKILL while it charges. The checker compares its answered calls with the charges. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { check } from "../checker/checker.ts";
import { nothing, type Call, type Charge, type LimitedScope } from "../checker/history.ts";
import { temporaryFolder } from "../store/folder.ts";
import {
  createKey,
  embeddedStore,
  openGatewaysOn,
  principalOf,
  type KnownKey,
} from "./gateways.ts";

/** A line of the log of the child. The status is 0 when the call is sent. `at`: milliseconds since 1970. */
export interface LoggedCall {
  readonly id: string;
  readonly keyId: string;
  readonly lines: number;
  readonly status: number;
  readonly at: number;
}

const rounds = 20;
const costMilliCu = 30;
/** Of a key, and the included credit of a workspace. Both are used up in the first rounds. */
const keyLimitMilliCu = 9_000;
const planLimitMilliCu = 1_000;
const child = new URL("kill-child.ts", import.meta.url).pathname;

/** Starts the child and kills it after it has answered `answers` calls. Returns its complete calls, and the others. */
async function runAndKill(
  args: readonly string[],
  answers: number,
  workspaces: ReadonlyMap<string, string>,
): Promise<Call[]> {
  const started = spawn(process.execPath, [child, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exit = once(started, "exit");
  let said = "";
  let answered = 0;
  for await (const chunk of started.stdout) {
    const text = String(chunk);
    said += text;
    answered += text.split('"status":200').length - 1;
    if (answered >= answers) started.kill("SIGKILL");
  }
  const [, signal] = await exit;
  assert.equal(signal, "SIGKILL", `the child ended by itself: ${said}`);
  // An incomplete last line does not count.
  const lines = said.slice(0, said.lastIndexOf("\n")).split("\n");
  const logged = lines.map((line) => JSON.parse(line) as LoggedCall);
  const ends = new Map(logged.filter(({ status }) => status !== 0).map((call) => [call.id, call]));
  return logged
    .filter(({ status }) => status === 0)
    .map(({ id, keyId, lines: count, at }) => {
      const { status = 0, at: end = Date.now() } = ends.get(id) ?? {};
      return {
        id,
        replica: args[1] ?? "",
        keyId,
        workspaceId: workspaces.get(keyId) ?? "",
        start: at,
        end,
        status,
        isWhole: status !== 0,
        milliCu: status === 200 ? costMilliCu : 0,
        maxMilliCu: costMilliCu,
        lines: count,
      };
    });
}

test("whenever a gateway is killed, nothing is lost, doubled, above a limit or refused without reason", async (t) => {
  const folder = temporaryFolder(t);
  const keys: KnownKey[] = [];
  {
    await using stack = new AsyncDisposableStack();
    const ending = { after: (close: () => Promise<void>): void => stack.defer(close) };
    const gateways = await openGatewaysOn(ending, folder, embeddedStore);
    keys.push(await createKey(gateways, "enterprise"));
    keys.push(await createKey(gateways, "enterprise", { cuLimit24hMilli: keyLimitMilliCu }));
    keys.push(await createKey(gateways, "free"));
  }
  const [, limited, small] = keys;
  const workspaces = new Map(keys.map(({ keyId, workspaceId }) => [keyId, workspaceId]));
  const calls: Call[] = [];
  for (let round = 0; round < rounds; round++) {
    // From the first charge to several hundred, so that kills happen during commits, checkpoints and starts.
    const args = [folder, String(round), ...keys.map(({ text }) => text)];
    calls.push(...(await runAndKill(args, 1 + ((round * 37) % 300), workspaces)));
  }

  const gateways = await openGatewaysOn(t, folder, embeddedStore);
  const { out } = await gateways.run("usage", "export");
  const rows = out.map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.equal(new Set(rows.map((row) => row["id"])).size, rows.length);
  const charges = rows.map((row): Charge => ({
    requestId: String(row["request_id"]),
    keyId: String(row["key_id"]),
    workspaceId: String(row["workspace_id"]),
    milliCu: Number(row["used_cu_milli"]),
  }));
  const scopes: LimitedScope[] = [
    { kind: "key", id: limited?.keyId ?? "", limitMilliCu: keyLimitMilliCu, isFixed: true },
    {
      kind: "workspace",
      id: small?.workspaceId ?? "",
      limitMilliCu: planLimitMilliCu,
      isFixed: true,
    },
  ];
  const sums = [];
  for (const key of keys) {
    const { metering } = gateways.one;
    const { key: limits, workspace } = await principalOf(gateways.one, key);
    const { day, month, openMilliCu } = await metering.keyWindows(limits);
    const used = await metering.workspaceUsage(workspace.id);
    assert.deepEqual([openMilliCu, used.openMilliCu], [0, 0]);
    sums.push(
      { of: "24 hours", id: key.keyId, milliCu: day.usedMilliCu },
      { of: "30 days", id: key.keyId, milliCu: month.usedMilliCu },
      { of: "the month", id: workspace.id, milliCu: used.includedMilliCu },
    );
  }
  const violations = check({ ...nothing, calls, charges, scopes, sums, isAlone: true });
  assert.deepEqual(
    Object.fromEntries(Object.entries(violations).filter(([, all]) => all.length)),
    {},
  );
  const by = Map.groupBy(calls, ({ status }) => status);
  const counts = [200, 429, 0].map((status) => by.get(status)?.length ?? 0);
  assert.ok(
    counts.every((count) => count > 0),
    `answered, refused and cut: ${counts.join(", ")}`,
  );
});
