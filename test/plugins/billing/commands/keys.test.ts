import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { AccountsService } from "../../../../plugins/billing/accounts/accounts.ts";
import { keys } from "../../../../plugins/billing/commands/keys.ts";
import { workspaces } from "../../../../plugins/billing/commands/workspaces.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { plans } from "../accounts/fixture.ts";
import { assertRefused } from "./wrong-usage.ts";
import { commandLine, type CommandLine } from "../../../commands/command-line.ts";
import { silentLog } from "../../../test-log.ts";
import { withFolderAccounts } from "../accounts/open-accounts.ts";
import { noSession } from "../../../../src/store/session.ts";

const minute = 60_000;
const day = 24 * 60 * minute;

async function workspaceOf({ json }: CommandLine): Promise<string> {
  const made = await json(workspaces, "create", "--name", "Acme", "--plan", "developer");
  return String(made["id"]);
}

/** Returns how a gateway on the same folder identifies the key: the id of the key, or the refusal. */
async function identified(
  data: string,
  text: unknown,
  environment: "dev" | "prod" = "dev",
): Promise<string> {
  const clock = manualClock(Date.now());
  const caller = await withFolderAccounts(data, async (store) => {
    const common = { session: noSession, plans, clock, log: silentLog };
    const accounts = await AccountsService.open({ store, environment, ...common });
    const found = await accounts.identify(`Bearer ${String(text)}`);
    await accounts.close();
    return found;
  });
  if (caller.kind === "key") return caller.key.id;
  return caller.kind === "anonymous" ? caller.reason : caller.kind;
}

/** Converts an RFC 3339 member to milliseconds since 1970. */
const time = (value: unknown): number => Date.parse(String(value));

test("create accepts every option", async (t) => {
  const line = commandLine(t, "prod");
  const argv = ["create", "--workspace", await workspaceOf(line), "--name", "ci", "--rps", "2.5"];
  argv.push(
    "--capability",
    "ledger:write",
    "--capability",
    "docs:read",
    "--capability",
    "docs:read",
  );
  argv.push("--cu-24h", "0", "--cu-30d", "9007199254740991", "--expires-in", "30d");
  const made = await line.json(keys, ...argv);
  assert.match(String(made["key"]), /^gateway_prod_/);
  assert.equal(made["name"], "ci");
  assert.equal(made["environment"], "prod");
  assert.deepEqual(made["capabilities"], ["ledger:write", "docs:read"]);
  assert.equal(made["rps_limit"], 2.5);
  assert.equal(made["cu_limit_24h_milli"], 0);
  assert.equal(made["cu_limit_30d_milli"], Number.MAX_SAFE_INTEGER);
  assert.equal(time(made["expires_at"]) - time(made["created_at"]), 30 * day);
  assert.equal(await identified(line.data, made["key"], "prod"), made["id"]);
  assert.equal(await identified(line.data, made["key"]), "unauthorized");
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
  const unknown = await line.run(keys, "list", "--workspace", "ws_none");
  assert.deepEqual(unknown, { code: 1, out: [], err: ["there is no workspace ws_none"] });
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
  assert.equal(await identified(line.data, made["key"]), "unauthorized");
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
  assert.equal(await identified(line.data, old["key"]), old["id"]);
  assert.equal(await identified(line.data, next["key"]), next["id"]);
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
  assert.equal(await identified(line.data, key), "api key not allowed from this address");

  const before = Date.now();
  const { expires_at, ...others } = await set("--expires-in", "30d");
  assert.deepEqual(others, bound);
  assert.ok(time(expires_at) >= before + 30 * day && time(expires_at) <= Date.now() + 30 * day);
  const nothing = ["--rps", "none", "--cu-24h", "none", "--cu-30d", "none", "--allow-ip", "none"];
  const { capabilities: kept } = granted;
  const free = { ...made, name: "ci", capabilities: kept };
  assert.deepEqual(await set(...nothing, "--expires-in", "none"), free);
  assert.equal(await identified(line.data, key), made["id"]);

  const all = await withFolderAccounts(line.data, (store) => store.changes());
  const changes = all.filter(({ action }) => action === "key.set");
  assert.equal(changes.length, 6);
  assert.deepEqual(changes[0]?.details, { name: "ci", rpsLimit: 2.5 });
  assert.equal(changes[0].keyId, made["id"]);
});

test("unknown ids fail with exit code 1 and a message", async (t) => {
  const { run } = commandLine(t);
  const noKey = { code: 1, out: [], err: ["there is no key key_none"] };
  assert.deepEqual(await run(keys, "revoke", "key_none"), noKey);
  assert.deepEqual(await run(keys, "rotate", "key_none", "--json"), noKey);
  assert.deepEqual(await run(keys, "create", "--workspace", "ws_none"), {
    code: 1,
    out: [],
    err: ["there is no workspace ws_none"],
  });
});

/** Commands that are refused, and a part of the message. */
const wrong = `
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

test("wrong usage is refused and stores nothing", async (t) => {
  const line = commandLine(t);
  const create = ["create", "--workspace", await workspaceOf(line)];
  await assertRefused(line, keys, { CREATE: create, EMPTY: [""], CONTROL: ["a\nb"] }, wrong);
  const logged = await withFolderAccounts(line.data, (store) => store.changes());
  assert.deepEqual(
    logged.map(({ action }) => action),
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
  const made = await Promise.all(Array.from({ length: 6 }, () => sluice(...create)));
  const issued = made.map(({ stdout }) => JSON.parse(stdout) as { id: string; key: string });
  assert.equal(new Set(issued.map(({ key }) => key)).size, 6);
  for (const { id, key } of issued) assert.equal(await identified(line.data, key), id);

  await assert.rejects(sluice("keys", "revoke", "key_none"), { code: 1 });
  await assert.rejects(sluice("keys", "revoke"), { code: 2 });
  await assert.rejects(sluice("keys", "list", "--rpz", "1"), { code: 2 });
});
