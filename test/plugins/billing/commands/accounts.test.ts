/** Tests of the commands of accounts and of usage on a data folder, as a shell runs them. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync, statSync, mkdirSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { keys } from "../../../../plugins/billing/commands/keys.ts";
import { workspaces } from "../../../../plugins/billing/commands/workspaces.ts";
import { commandLine, type CommandLine } from "../../../commands/command-line.ts";
import { silentLog } from "../../../test-log.ts";
import { audit } from "../../../../plugins/billing/commands/audit.ts";
import { startGateway, type Gateway } from "../../../../src/gateway/gateway.ts";
import { UsageError, type Command } from "../../../../src/commands/command.ts";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { lockStore } from "../../../../src/store/lock.ts";
import { embeddedFolder } from "../../../fixtures/billing/fixtures.ts";
import { usage } from "../../../../plugins/billing/commands/usage.ts";
import { about, line as lineOf, principalOf } from "../metering/principals.ts";

/** Runs each command of a table of arguments and messages. `words`: arguments that stand for others; `NONE` is none. */
async function assertRefused(
  { run }: Pick<CommandLine, "run">,
  command: Command,
  words: Readonly<Record<string, readonly string[]>>,
  table: string,
): Promise<void> {
  const known = new Map(Object.entries({ NONE: [], ...words }));
  for (const row of table.trim().split("\n")) {
    const [text = "", message = ""] = row.split("|").map((cell) => cell.trim());
    const argv = text.split(" ").flatMap((word) => known.get(word) ?? [word]);
    const isRefused = (error: unknown): boolean =>
      error instanceof UsageError && error.message.includes(message);
    await assert.rejects(run(command, ...argv), isRefused, text);
  }
}

const minute = 60_000;
const day = 24 * 60 * minute;

async function workspaceOf({ json }: CommandLine): Promise<string> {
  const made = await json(workspaces, "create", "--name", "Acme", "--plan", "developer");
  return String(made["id"]);
}

async function withGateway<T>(
  { configFile }: Pick<CommandLine, "configFile">,
  work: (gateway: Gateway) => Promise<T>,
  environment = "dev",
): Promise<T> {
  const env = { GATEWAY_ENV: environment, PORT: "0", ADMIN_PORT: "0" };
  const options = { configFile, env, log: silentLog, watch: false, drainDelaySeconds: 0 };
  const gateway = await startGateway(options);
  try {
    return await work(gateway);
  } finally {
    await gateway.stop();
  }
}

/** Returns how a gateway on the same folder identifies the keys: their ids, or the refusals. */
function identified(
  line: CommandLine,
  texts: readonly unknown[],
  environment = "dev",
): Promise<string[]> {
  const identify = async (gateway: Gateway): Promise<string[]> => {
    const callers = await Promise.all(
      texts.map(async (text) => gateway.use("accounts")?.identify(`Bearer ${String(text)}`)),
    );
    return callers.map((caller) => {
      if (caller?.kind === "key") return caller.key.id;
      return caller?.kind === "anonymous" ? caller.reason : String(caller?.kind);
    });
  };
  return withGateway(line, identify, environment);
}

async function changesOf({ run }: CommandLine): Promise<Record<string, unknown>[]> {
  const { out } = await run(audit, "--json");
  return out.map((text) => JSON.parse(text) as Record<string, unknown>);
}

const time = (value: unknown): number => Date.parse(String(value));

test("create accepts every option", async (t) => {
  const line = commandLine(t, "prod");
  const argv = ["create", "--workspace", await workspaceOf(line), "--name", "ci", "--rps", "2.5"];
  for (const each of ["ledger:write", "docs:read", "docs:read"]) argv.push("--capability", each);
  argv.push("--cu-24h", "0", "--cu-30d", "9007199254740991", "--expires-in", "30d");
  const made = await line.json(keys, ...argv);
  assert.match(String(made["key"]), /^gateway_prod_/);
  assert.partialDeepStrictEqual(made, {
    name: "ci",
    environment: "prod",
    capabilities: ["ledger:write", "docs:read"],
    rps_limit: 2.5,
    cu_limit_24h_milli: 0,
    cu_limit_30d_milli: Number.MAX_SAFE_INTEGER,
  });
  assert.equal(time(made["expires_at"]) - time(made["created_at"]), 30 * day);
  assert.deepEqual(await identified(line, [made["key"]], "prod"), [made["id"]]);
  assert.deepEqual(await identified(line, [made["key"]]), ["unauthorized"]);
});

test("list shows all keys or those of a workspace, but never the text of a key", async (t) => {
  const line = commandLine(t);
  const [one, two] = [await workspaceOf(line), await workspaceOf(line)];
  const first = await line.json(keys, "create", "--workspace", one, "--name", "first");
  const second = await line.json(keys, "create", "--workspace", two);
  const ids = async (...argv: string[]): Promise<unknown[]> => {
    const { out } = await line.run(keys, "list", ...argv, "--json");
    assert.ok(!out.join().includes("gateway_dev_"));
    return (JSON.parse(out[0] ?? "") as { id: string }[]).map(({ id }) => id).toSorted();
  };
  assert.deepEqual(await ids(), [first["id"], second["id"]].map(String).toSorted());
  assert.deepEqual(await ids("--workspace", two), [second["id"]]);
  const table = await line.run(keys, "list", "--workspace", one);
  assert.match(table.out[1] ?? "", /^key_\w+ +ws_\w+ +dev +active +first +- +-$/);
});

test("a key can be revoked while another section of pipeline.yaml has a fault, which is printed", async (t) => {
  const line = commandLine(t);
  const workspace = await workspaceOf(line);
  const made = await line.json(keys, "create", "--workspace", workspace);
  const good = readFileSync(line.configFile, "utf8");
  writeFileSync(line.configFile, good.replace("to: models", "too: models"));
  const revoked = await line.run(keys, "revoke", String(made["id"]));
  assert.equal(revoked.code, 0);
  assert.match(revoked.err.join("\n"), /SLUICE_KEY_UNKNOWN/);
  writeFileSync(line.configFile, good);
  assert.deepEqual(await identified(line, [made["key"]]), ["unauthorized"]);
});

test("no command runs if the data folder is not known", async (t) => {
  const line = commandLine(t);
  const workspace = await workspaceOf(line);
  const good = readFileSync(line.configFile, "utf8");
  const wrong = [
    good.replace("data: ./data", "date: ./data"),
    good.replace("environment: ${GATEWAY_ENV}", "environment: nowhere"),
    good.replace("environment: ${GATEWAY_ENV}", "environment: ${NOT_SET}"),
    good.replace("routes:", "routes: ["),
    "",
  ];
  for (const text of wrong) {
    writeFileSync(line.configFile, text);
    const { code, out } = await line.run(keys, "create", "--workspace", workspace);
    assert.deepEqual([code, out], [1, []], text);
  }
});

test("rotate issues a successor and prints when the old key expires", async (t) => {
  const line = commandLine(t);
  const workspace = await workspaceOf(line);
  const old = await line.json(keys, "create", "--workspace", workspace, "--rps", "3");
  const next = await line.json(keys, "rotate", String(old["id"]), "--overlap", "15m");
  assert.deepEqual(next, {
    ...old,
    id: next["id"],
    key: next["key"],
    created_at: next["created_at"],
    replaces: old["id"],
    replaced_expires_at: next["replaced_expires_at"],
  });
  assert.equal(time(next["replaced_expires_at"]) - time(next["created_at"]), 15 * minute);
  assert.deepEqual(await identified(line, [old["key"], next["key"]]), [old["id"], next["id"]]);
  const again = await line.run(keys, "rotate", String(old["id"]));
  assert.equal(again.code, 1);
  assert.deepEqual(again.err, [`${String(old["id"])} was rotated to ${String(next["id"])}`]);
});

test("set changes only the given options, and none removes a limit", async (t) => {
  const line = commandLine(t);
  const workspace = await workspaceOf(line);
  const { key, ...made } = await line.json(keys, "create", "--workspace", workspace);
  const set = (...argv: string[]): Promise<Record<string, unknown>> =>
    line.json(keys, "set", String(made["id"]), ...argv);

  const named = { ...made, name: "ci", rps_limit: 2.5 };
  assert.deepEqual(await set("--name", "ci", "--rps", "2.5"), named);
  const limited = { ...named, cu_limit_24h_milli: 0, cu_limit_30d_milli: 9 };
  assert.deepEqual(await set("--cu-24h", "0", "--cu-30d", "9"), limited);
  const granted = { ...limited, capabilities: ["docs:read", "workspace:admin"] };
  const capabilities = ["--capability", "workspace:admin", "--capability", "docs:read"];
  assert.deepEqual(await set(...capabilities), granted);
  const allowed_addresses = ["10.0.0.0/8", "192.0.2.1"];
  const bound = { ...granted, allowed_addresses };
  assert.deepEqual(await set("--allow-ip", "10.0.0.0/8", "--allow-ip", "192.0.2.1"), bound);
  assert.deepEqual(await identified(line, [key]), ["api key not allowed from this address"]);

  const before = Date.now();
  const { expires_at, ...others } = await set("--expires-in", "30d");
  assert.deepEqual(others, bound);
  assert.ok(time(expires_at) >= before + 30 * day && time(expires_at) <= Date.now() + 30 * day);
  const nothing = ["--rps", "none", "--cu-24h", "none", "--cu-30d", "none", "--allow-ip", "none"];
  const { capabilities: kept } = granted;
  const free = { ...made, name: "ci", capabilities: kept };
  assert.deepEqual(await set(...nothing, "--expires-in", "none"), free);
  assert.deepEqual(await identified(line, [key]), [made["id"]]);

  const changes = (await changesOf(line)).filter(({ action }) => action === "key.set");
  assert.equal(changes.length, 6);
  assert.deepEqual(changes[0]?.["details"], { name: "ci", rps_limit: 2.5 });
  assert.equal(changes[0]["key_id"], made["id"]);
});

test("unknown ids fail with exit code 1 and a message", async (t) => {
  const { run } = commandLine(t);
  const unknown: readonly (readonly [Command, readonly string[], string])[] = [
    [keys, ["revoke", "key_none"], "key key_none"],
    [keys, ["rotate", "key_none", "--json"], "key key_none"],
    [keys, ["create", "--workspace", "ws_none"], "workspace ws_none"],
    [keys, ["list", "--workspace", "ws_none"], "workspace ws_none"],
    [workspaces, ["show", "ws_none"], "workspace ws_none"],
    [workspaces, ["set", "ws_none", "--plan", "free", "--json"], "workspace ws_none"],
    [workspaces, ["purchase", "ws_none", "--cu", "1"], "workspace ws_none"],
    [audit, ["--workspace", "ws_none"], "workspace ws_none"],
  ];
  for (const [command, argv, what] of unknown) {
    const failed = { code: 1, out: [], err: [`there is no ${what}`] };
    assert.deepEqual(await run(command, ...argv), failed, argv.join(" "));
  }
});

/** Commands that are refused, and a part of the message. */
const wrongKeys = `
NONE                                    | missing subcommand, expected one of create, list, set, revoke, rotate
remove                                  | unknown subcommand "remove"
create                                  | missing option --workspace
CREATE --capability ledger:raed         | unknown value "ledger:raed"; did you mean "ledger:read"?
CREATE --capability inference --capability EMPTY | --capability: unknown value ""
CREATE --rps=-1                         | --rps: expected requests per second above 0, at most 1000000, got "-1"
CREATE --rps 0                          | --rps
CREATE --rps 0.0001                     | --rps
CREATE --rps 1000001                    | --rps
CREATE --rps many                       | --rps
CREATE --cu-24h=-5                      | --cu-24h: expected milli-CU as a whole number, 0 or more, got "-5"
CREATE --cu-30d 0x10                    | --cu-30d: expected milli-CU as a whole number, 0 or more, got "0x10"
CREATE --expires-in 30                  | --expires-in: expected a duration
CREATE --expires-in 1w                  | , got "1w"
CREATE --expires-in 0s                  | --expires-in: expected a duration above 0, got "0s"
CREATE --expires-in 999999999d          | --expires-in: expected at most 100 years, got "999999999d"
CREATE --name CONTROL                   | --name
CREATE --overlap 1h                     | --overlap is not valid for keys create
CREATE --allow-ip EMPTY                 | --allow-ip
CREATE --allow-ip 10.0.0                | --allow-ip
CREATE --allow-ip 10.0.0.0/33           | --allow-ip
CREATE --allow-ip 10.0.0.0/8/8          | --allow-ip
CREATE --allow-ip example.org           | --allow-ip
CREATE --allow-ip fe80::1%eth0          | --allow-ip
revoke                                  | missing argument KEY_ID
revoke key_1 key_2                      | unexpected argument "key_2"
rotate key_1 --overlap soon             | , got "soon"
list key_1                              | unexpected argument "key_1"
set key_1                               | expected at least one of --name, --capability, --rps
set --rps 1                             | missing argument KEY_ID
set key_1 --rps 0                       | --rps
set key_1 --expires-in 0s               | --expires-in: expected a duration above 0, got "0s"
set key_1 --cu-24h None                 | --cu-24h: expected milli-CU as a whole number, 0 or more, got "None"
set key_1 --capability none             | --capability: unknown value "none"
set key_1 --allow-ip none --allow-ip 10.0.0.0/8 | , got "none"
set key_1 --overlap 1h                  | --overlap is not valid for keys set
`;

const wrongWorkspaces = `
NONE                              | missing subcommand, expected one of create, list, show, set, purchase
craete                            | unknown subcommand "craete"; did you mean "create"?
constructor                       | unknown subcommand "constructor"
create --plan free                | missing option --name
create --name A                   | missing option --plan
create --name A --plan developr   | --plan: unknown value "developr"; did you mean "developer"?
create --name A --plan Free       | unknown value "Free"; did you mean "free"?
create --name A --plan gold       | unknown value "gold" (expected one of free, developer, startup, enterprise)
create --name EMPTY --plan free   | --name: expected a name of 1 to 200
create --name LONG --plan free    | --name: expected a name of 1 to 200
create --name ESCAPE --plan free  | --name: expected a name of 1 to 200
CREATE --overage-limit=-1 | --overage-limit: expected milli-CU as a whole number, 0 or more, got "-1"
CREATE --overage-limit 1.5 | a whole number, 0 or more, got "1.5"
CREATE --overage-limit 1e3 | a whole number, 0 or more, got "1e3"
CREATE --overage-limit 9007199254740993 | as a whole number, 0 or more
CREATE --overage-limit EMPTY | as a whole number, 0 or more
CREATE --overage-limit none | as a whole number, 0 or more
CREATE more  | unexpected argument "more"
list --plan free                  | --plan is not valid for workspaces list
show                              | missing argument ID for workspaces show
show a b                          | unexpected argument "b"
set ws_1                          | expected at least one of --plan
set ws_1 --name B                 | --name is not valid for
set ws_1 --plan fre               | did you mean "free"?
set --plan free                   | missing argument ID
purchase ws_1                     | missing option --cu
purchase --cu 1                   | missing argument ID for workspaces purchase
purchase ws_1 --cu 0              | --cu: expected an amount above 0 milli-CU
purchase ws_1 --cu=-1             | --cu: expected milli-CU as a whole number, 0 or more, got "-1"
purchase ws_1 --cu none           | --cu: expected milli-CU as a whole number, 0 or more, got "none"
show ws_1 --cu 1                  | --cu is not valid for workspaces show
`;

const wrongUsage = `
export --from 2026-02-30   | --from
export --to=               | --to
export --format xml        | jsonl, csv
export --format csv --json |
exprot                     | did you mean "export"
NONE                       |
export all                 |
`;

test("wrong usage is refused, and nothing is stored", async (t) => {
  const line = commandLine(t);
  const create = { CREATE: ["create", "--name", "A", "--plan", "free"] };
  const texts = {
    EMPTY: [""],
    CONTROL: ["a\nb"],
    LONG: ["x".repeat(201)],
    ESCAPE: ["a\u001b[31m"],
  };
  await assertRefused(line, workspaces, { ...create, ...texts }, wrongWorkspaces);
  await assertRefused(line, usage, {}, wrongUsage);
  assert.throws(() => statSync(line.data), /ENOENT/);
  const ofKey = { CREATE: ["create", "--workspace", await workspaceOf(line)] };
  await assertRefused(line, keys, { ...ofKey, ...texts }, wrongKeys);
  const changes = await changesOf(line);
  assert.deepEqual(
    changes.map(({ action }) => action),
    ["workspace.create"],
  );
});

test("the help text lists every option of the command", () => {
  for (const command of [keys, workspaces]) {
    assert.ok(typeof command.help === "string");
    assert.match(command.help, /^usage: sluice /);
    for (const option of Object.keys(command.options)) {
      assert.ok(command.help.includes(`--${option} `), option);
    }
  }
});

test("commands in separate processes run at the same time and exit as documented", async (t) => {
  const line = commandLine(t);
  const workspace = await workspaceOf(line);
  const main = fileURLToPath(new URL("../../../../src/main.ts", import.meta.url));
  const sluice = (...argv: string[]): Promise<{ stdout: string }> =>
    promisify(execFile)(process.execPath, [main, ...argv, "--config", line.configFile], {
      env: { ...process.env, GATEWAY_ENV: "dev" },
    });
  const create = ["keys", "create", "--workspace", workspace, "--json"];
  const made = await Promise.all(Array.from({ length: 4 }, () => sluice(...create)));
  const issued = made.map(({ stdout }) => JSON.parse(stdout) as { id: string; key: string });
  const ids = issued.map(({ id }) => id);
  assert.equal(new Set(ids).size, 4);
  const texts = issued.map(({ key }) => key);
  assert.deepEqual(await identified(line, texts), ids);

  await assert.rejects(sluice("keys", "revoke", "key_none"), { code: 1 });
  await assert.rejects(sluice("keys", "revoke"), { code: 2 });
  await assert.rejects(sluice("keys", "list", "--rpz", "1"), { code: 2 });
});

test("create prints the workspace as JSON and stores it in the configured folder", async (t) => {
  const line = commandLine(t);
  const { json, data } = line;
  const made = await json(workspaces, "create", "--name", "Acme", "--plan", "startup");
  assert.match(String(made["id"]), /^ws_[0-9a-f]{24}$/);
  assert.ok(Math.abs(Date.parse(String(made["created_at"])) - Date.now()) < 60_000);
  assert.deepEqual(made, {
    id: made["id"],
    name: "Acme",
    plan: "startup",
    purchased_cu_milli: 0,
    created_at: made["created_at"],
  });
  assert.equal(statSync(data).mode & 0o777, 0o700);
  assert.deepEqual(await json(workspaces, "show", String(made["id"])), made);
  assert.match(String((await changesOf(line))[0]?.["actor"]), /^cli:./);
});

test("without --json, records are printed as lines and as a table", async (t) => {
  const { run } = commandLine(t);
  const made = await run(workspaces, "create", "--name", "Acme", "--plan", "free");
  assert.equal(made.code, 0);
  assert.match(
    made.out.join("\n"),
    /^id +ws_\w+\nname +Acme\nplan +free\npurchased_cu_milli +0\ncreated_at +\S+Z$/,
  );
  const { out } = await run(workspaces, "list");
  assert.equal(out.length, 2);
  assert.match(
    out[0] ?? "",
    /^id +name +plan +pending_plan +purchased_cu_milli +overage_limit_cu_milli$/,
  );
  assert.match(out[1] ?? "", /^ws_\w+ +Acme +free +- +0 +-$/);
});

test("set changes only the given options, at once, and cancels a pending plan", async (t) => {
  const line = commandLine(t);
  const { json } = line;
  const made = await json(workspaces, "create", "--name", "Acme", "--plan", "startup");
  const id = String(made["id"]);
  await withGateway(line, async (gateway) =>
    gateway.use("accounts")?.workspaces.downgrade(id, "free", { actor: "test", requestId: "r" }),
  );
  const pending = await json(workspaces, "show", id);
  assert.deepEqual([pending["plan"], pending["pending_plan"]], ["startup", "free"]);

  const limited = { ...pending, overage_limit_cu_milli: 7 };
  assert.deepEqual(await json(workspaces, "set", id, "--overage-limit", "7"), limited);
  const moved = { ...made, plan: "enterprise", overage_limit_cu_milli: 7 };
  assert.deepEqual(await json(workspaces, "set", id, "--plan", "enterprise"), moved);
  const free = { ...made, plan: "enterprise" };
  assert.deepEqual(await json(workspaces, "set", id, "--overage-limit", "none"), free);
});

test("purchase adds credit, prints the same as the route, and is logged", async (t) => {
  const line = commandLine(t);
  const { json, run } = line;
  const create = ["create", "--name", "A", "--plan", "free"];
  const { purchased_cu_milli: _, ...made } = await json(workspaces, ...create);
  const id = String(made["id"]);
  const bought = await json(workspaces, "purchase", id, "--cu", "700");
  assert.match(String(bought["purchase_id"]), /^pur_[0-9a-f]{24}$/);
  const workspace = { ...made, purchased_cu_milli: 700 };
  assert.deepEqual(bought, { purchase_id: bought["purchase_id"], amount_cu_milli: 700, workspace });
  const { out } = await run(workspaces, "purchase", id, "--cu", "5");
  assert.deepEqual(
    out.filter((text) => /^(amount|purchased)/.test(text)),
    ["amount_cu_milli     5", "purchased_cu_milli  705"],
  );
  const most = String(Number.MAX_SAFE_INTEGER);
  const failed = await run(workspaces, "purchase", id, "--cu", most);
  assert.deepEqual(
    [failed.code, failed.err],
    [1, ["the purchased credit would exceed 2^53 - 1 milli-CU"]],
  );
  const actions = (await changesOf(line)).map(({ action }) => action);
  assert.deepEqual(actions, ["workspace.create", "workspace.purchase", "workspace.purchase"]);
});

test("without --json, a change is a line, and a wrong option is refused", async (t) => {
  const line = commandLine(t);
  const one = await line.json(workspaces, "create", "--name", "One", "--plan", "free");
  const { out } = await line.run(audit, "--workspace", String(one["id"]));
  const shown = new RegExp(`^1  \\S+Z  cli:\\S+  workspace.create  ${String(one["id"])}  \\{`);
  assert.match(out.join("\n"), shown);
  await assert.rejects(line.run(audit, "--after", "x"), UsageError);
  await assert.rejects(line.run(audit, "list"), UsageError);
});

test("a long log is printed completely", async (t) => {
  const line = commandLine(t);
  const made = await line.json(workspaces, "create", "--name", "Acme", "--plan", "free");
  const workspace = String(made["id"]);
  await withGateway(line, async (gateway) => {
    const admin = gateway.use("accounts")?.admin;
    const all = Array.from({ length: 2_000 }, async (_, at) =>
      admin?.setWorkspace(workspace, { plan: "free" }, { actor: "test", at }),
    );
    await Promise.all(all);
  });
  assert.deepEqual(
    (await changesOf(line)).map(({ id }) => id),
    Array.from({ length: 2_001 }, (_, i) => i + 1),
  );
});

test("a command moves the accounts of an earlier release, but not while a gateway uses the folder", async (t) => {
  const { data, run } = commandLine(t);
  mkdirSync(data, { mode: 0o700, recursive: true });
  const file = (name: string): string => join(data, name);
  for (const name of ["accounts.db", "accounts.db-wal"]) {
    writeFileSync(file(name), gunzipSync(readFileSync(join(embeddedFolder, `${name}.gz`))));
  }
  const before = readFileSync(file("accounts.db"));
  {
    using _gateway = lockStore(data);
    const { code, err } = await run(keys, "list");
    assert.equal(code, 1);
    assert.match(err.join("\n"), /SLUICE_STORE_IN_USE/);
    assert.deepEqual(readFileSync(file("accounts.db")), before);
  }
  const { code, out } = await run(keys, "list");
  assert.equal(code, 0);
  assert.ok(out.some((line) => line.startsWith("key_")));
  using _gateway = lockStore(data);
  assert.deepEqual(await run(keys, "list"), { code, out, err: [] }, "the files have been moved");
});

async function charge(gateway: Gateway, count: number): Promise<void> {
  const taken = await gateway.use("metering")?.reserve(principalOf(), 0, about);
  assert.ok(taken?.kind === "reserved");
  await taken.settle(Array.from({ length: count }, () => lineOf(0)));
}

test("export refuses to continue after a charge that the journal does not have", async (t) => {
  const line = commandLine(t);
  await withGateway(line, async (gateway) => {
    await charge(gateway, 1);
    const { out } = await line.run(usage, "export");
    const { id } = JSON.parse(out[0] ?? "") as { id: string };
    for (const after of ["chg_000000000000_1_0", id.replace(/_\d+_\d+$/, "_999999999_0")]) {
      const wrong = await line.run(usage, "export", "--after", after);
      assert.equal(wrong.code, 1);
      assert.match(wrong.err.join(), /the journal has no charge with the id/);
    }
  });
});

test("a data folder without a journal fails with the remedy", async (t) => {
  const { run, data } = commandLine(t);
  const { code, out, err } = await run(usage, "export");
  assert.deepEqual([code, out], [1, []]);
  assert.match(err.join("\n"), /:4:10 {2}SLUICE_STORE_FAILED {2}there is no journal at /);
  assert.ok(err.join("\n").includes(data));
});

test("an export stops when it receives a signal", async (t) => {
  const line = commandLine(t);
  await withGateway(line, async (gateway) => {
    for (let n = 0; n < 6; n++) await charge(gateway, 200);
  });
  const stopping = new AbortController();
  let printed = 0;
  const context = {
    env: { GATEWAY_ENV: "dev" },
    print: () => void (++printed === 10 && stopping.abort()),
    printToStderr: () => {},
    configFile: line.configFile,
    signal: stopping.signal,
    json: false,
  };
  assert.equal(await usage.run(context, {}, ["export"]), 1);
  assert.equal(printed, 500);
});
