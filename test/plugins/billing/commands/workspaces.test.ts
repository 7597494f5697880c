import assert from "node:assert/strict";
import { statSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { UsageError } from "../../../../src/commands/command.ts";
import { workspaces } from "../../../../plugins/billing/commands/workspaces.ts";
import { commandLine } from "../../../commands/command-line.ts";
import { withFolderAccounts } from "../accounts/open-accounts.ts";

const wrongUsage = (message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof UsageError, String(error));
  assert.match(error.message, message);
  return true;
};

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

test("create, show and list print the same", async (t) => {
  const { json, run } = commandLine(t);
  const make = (name: string, ...more: string[]): ReturnType<typeof json> =>
    json(workspaces, "create", "--name", name, "--plan", "developer", ...more);
  const first = await make("First", "--overage-limit", "0");
  assert.equal(first["overage_limit_cu_milli"], 0);
  assert.deepEqual(await json(workspaces, "show", String(first["id"])), first);
  await make("Second");
  const list = await run(workspaces, "list", "--json");
  assert.equal(list.out.length, 1);
  const listed = JSON.parse(list.out[0] ?? "") as { name: string }[];
  assert.deepEqual(listed.map(({ name }) => name).toSorted(), ["First", "Second"]);
  assert.deepEqual(
    listed.find(({ name }) => name === "First"),
    first,
  );
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

test("an empty store prints an empty list", async (t) => {
  const { run } = commandLine(t);
  assert.deepEqual(await run(workspaces, "list", "--json"), { code: 0, out: ["[]"], err: [] });
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

test("wrong usage is refused before anything is stored", async (t) => {
  const { run, data } = commandLine(t);
  const create = ["create", "--name", "A", "--plan", "free"];
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [[], /missing subcommand, expected one of create, list, show, set, purchase/],
    [["craete"], /unknown subcommand "craete"; did you mean "create"\?/],
    [["constructor"], /unknown subcommand "constructor"/],
    [["create", "--plan", "free"], /missing option --name/],
    [["create", "--name", "A"], /missing option --plan/],
    [
      ["create", "--name", "A", "--plan", "developr"],
      /--plan: unknown value "developr"; did you mean "developer"\?/,
    ],
    [["create", "--name", "A", "--plan", "Free"], /unknown value "Free"; did you mean "free"\?/],
    [
      ["create", "--name", "A", "--plan", "gold"],
      /unknown value "gold" \(expected one of free, developer, startup, enterprise\)/,
    ],
    [["create", "--name", "", "--plan", "free"], /--name: expected a name of 1 to 200/],
    [
      ["create", "--name", "x".repeat(201), "--plan", "free"],
      /--name: expected a name of 1 to 200/,
    ],
    [["create", "--name", "a\u001b[31m", "--plan", "free"], /--name: expected a name of 1 to 200/],
    [
      [...create, "--overage-limit=-1"],
      /--overage-limit: expected milli-CU as a whole number, 0 or more, got "-1"/,
    ],
    [[...create, "--overage-limit", "1.5"], /a whole number, 0 or more, got "1.5"/],
    [[...create, "--overage-limit", "1e3"], /a whole number, 0 or more, got "1e3"/],
    [[...create, "--overage-limit", "9007199254740993"], /as a whole number, 0 or more/],
    [[...create, "--overage-limit", ""], /as a whole number, 0 or more/],
    [[...create, "--overage-limit", "none"], /as a whole number, 0 or more/],
    [[...create, "more"], /unexpected argument "more"/],
    [["list", "--plan", "free"], /--plan is not valid for workspaces list/],
    [["show"], /missing argument ID for workspaces show/],
    [["show", "a", "b"], /unexpected argument "b"/],
    [["set", "ws_1"], /expected at least one of --plan/],
    [["set", "ws_1", "--name", "B"], /--name is not valid for/],
    [["set", "ws_1", "--plan", "fre"], /did you mean "free"\?/],
    [["set", "--plan", "free"], /missing argument ID/],
    [["purchase", "ws_1"], /missing option --cu/],
    [["purchase", "--cu", "1"], /missing argument ID for workspaces purchase/],
    [["purchase", "ws_1", "--cu", "0"], /--cu: expected an amount above 0 milli-CU/],
    [
      ["purchase", "ws_1", "--cu=-1"],
      /--cu: expected milli-CU as a whole number, 0 or more, got "-1"/,
    ],
    [
      ["purchase", "ws_1", "--cu", "none"],
      /--cu: expected milli-CU as a whole number, 0 or more, got "none"/,
    ],
    [["show", "ws_1", "--cu", "1"], /--cu is not valid for workspaces show/],
  ];
  for (const [argv, message] of cases) {
    await assert.rejects(run(workspaces, ...argv), wrongUsage(message), argv.join(" "));
  }
  assert.throws(() => statSync(data), /ENOENT/);
});

test("an unusable pipeline.yaml fails with exit code 1 and its position, and creates no store", async (t) => {
  const { run, configFile, data } = commandLine(t);
  writeFileSync(configFile, "version: 1\nstore: { dta: ./data }\n");
  const result = await run(workspaces, "list");
  assert.equal(result.code, 1);
  assert.deepEqual(result.out, []);
  assert.match(result.err.join("\n"), /pipeline\.yaml:2:\d+/);
  writeFileSync(configFile, "");
  assert.equal((await run(workspaces, "list")).code, 1);
  assert.throws(() => statSync(data), /ENOENT/);
});

test("an unusable store fails with exit code 1, its error code and a remedy", async (t) => {
  const { run, data } = commandLine(t);
  writeFileSync(data, "a file where the folder should be");
  const result = await run(workspaces, "list", "--json");
  assert.equal(result.code, 1);
  assert.deepEqual(result.out, []);
  assert.match(
    result.err.join("\n"),
    /:4:10 {2}SLUICE_STORE_UNWRITABLE {2}cannot write .*\n {4}\S/,
  );
});
