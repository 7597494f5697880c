import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { test } from "node:test";
import { workspaces } from "../../../../plugins/billing/commands/workspaces.ts";
import { assertRefused } from "./wrong-usage.ts";
import { commandLine } from "../../../commands/command-line.ts";
import { withFolderAccounts } from "../accounts/open-accounts.ts";

test("create prints the workspace as JSON and stores it in the configured folder", async (t) => {
  const { json, data } = commandLine(t);
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
  await withFolderAccounts(data, async (store) => {
    assert.equal((await store.findWorkspace(String(made["id"])))?.plan, "startup");
    assert.match((await store.changes())[0]?.actor ?? "", /^cli:./);
  });
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
  const { json, data } = commandLine(t);
  const made = await json(workspaces, "create", "--name", "Acme", "--plan", "startup");
  const id = String(made["id"]);
  const at = Date.UTC(2100, 0, 1);
  await withFolderAccounts(data, (store) =>
    store.downgrade(id, { plan: "free", at }, { actor: "test", at: Date.now() }),
  );
  const pending = { ...made, pending_plan: "free", pending_plan_at: "2100-01-01T00:00:00.000Z" };
  assert.deepEqual(await json(workspaces, "show", id), pending);

  const limited = { ...pending, overage_limit_cu_milli: 7 };
  assert.deepEqual(await json(workspaces, "set", id, "--overage-limit", "7"), limited);
  const moved = { ...made, plan: "enterprise", overage_limit_cu_milli: 7 };
  assert.deepEqual(await json(workspaces, "set", id, "--plan", "enterprise"), moved);
  const free = { ...made, plan: "enterprise" };
  assert.deepEqual(await json(workspaces, "set", id, "--overage-limit", "none"), free);
});

test("purchase adds credit, prints the same as the route, and is logged", async (t) => {
  const { json, run, data } = commandLine(t);
  const { purchased_cu_milli: _, ...made } = await json(
    workspaces,
    "create",
    "--name",
    "A",
    "--plan",
    "free",
  );
  const id = String(made["id"]);
  const bought = await json(workspaces, "purchase", id, "--cu", "700");
  assert.match(String(bought["purchase_id"]), /^pur_[0-9a-f]{24}$/);
  const workspace = { ...made, purchased_cu_milli: 700 };
  assert.deepEqual(bought, { purchase_id: bought["purchase_id"], amount_cu_milli: 700, workspace });
  const { out } = await run(workspaces, "purchase", id, "--cu", "5");
  assert.deepEqual(
    out.filter((line) => /^(amount|purchased)/.test(line)),
    ["amount_cu_milli     5", "purchased_cu_milli  705"],
  );
  const most = String(Number.MAX_SAFE_INTEGER);
  const failed = await run(workspaces, "purchase", id, "--cu", most);
  assert.deepEqual(
    [failed.code, failed.err],
    [1, ["the purchased credit would exceed 2^53 - 1 milli-CU"]],
  );
  const changes = await withFolderAccounts(data, (store) => store.changes());
  const actions = changes.map(({ action }) => action);
  assert.deepEqual(actions, ["workspace.create", "workspace.purchase", "workspace.purchase"]);
});

test("an unknown workspace fails with exit code 1 and a message", async (t) => {
  const { run } = commandLine(t);
  const failed = { code: 1, out: [], err: ["there is no workspace ws_none"] };
  assert.deepEqual(await run(workspaces, "show", "ws_none"), failed);
  assert.deepEqual(await run(workspaces, "set", "ws_none", "--plan", "free", "--json"), failed);
  assert.deepEqual(await run(workspaces, "purchase", "ws_none", "--cu", "1"), failed);
});

/** Commands that are refused, and a part of the message. */
const wrong = `
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

test("wrong usage is refused before anything is stored", async (t) => {
  const { run, data } = commandLine(t);
  const create = ["create", "--name", "A", "--plan", "free"];
  const words = { CREATE: create, EMPTY: [""], LONG: ["x".repeat(201)], ESCAPE: ["a\u001b[31m"] };
  await assertRefused({ run }, workspaces, words, wrong);
  assert.throws(() => statSync(data), /ENOENT/);
});
