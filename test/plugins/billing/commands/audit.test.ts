import assert from "node:assert/strict";
import { test } from "node:test";
import { audit } from "../../../../plugins/billing/commands/audit.ts";
import { UsageError } from "../../../../src/commands/command.ts";
import { keys } from "../../../../plugins/billing/commands/keys.ts";
import { workspaces } from "../../../../plugins/billing/commands/workspaces.ts";
import { commandLine, type CommandLine } from "../../../commands/command-line.ts";
import { withFolderAccounts } from "../accounts/open-accounts.ts";

interface Printed {
  readonly id: number;
  readonly actor: string;
  readonly action: string;
  readonly workspace_id: string;
  readonly key_id?: string;
  readonly details: Record<string, unknown>;
}

async function changes({ run }: CommandLine, ...argv: string[]): Promise<Printed[]> {
  const { code, out } = await run(audit, ...argv, "--json");
  assert.equal(code, 0);
  // These tests check the shape.
  return out.map((line) => JSON.parse(line) as Printed);
}

test("every change by a command is logged with its actor and without the text of a key", async (t) => {
  const line = commandLine(t);
  const made = await line.json(workspaces, "create", "--name", "Acme", "--plan", "free");
  const id = String(made["id"]);
  await line.json(workspaces, "set", id, "--plan", "startup", "--overage-limit", "7");
  const key = await line.json(keys, "create", "--workspace", id, "--allow-ip", "10.0.0.0/8");
  const next = await line.json(keys, "rotate", String(key["id"]));
  await line.json(keys, "revoke", String(key["id"]));
  const printed = await changes(line);
  assert.deepEqual(
    printed.map(({ id: n, action, key_id }) => [n, action, key_id]),
    [
      [1, "workspace.create", undefined],
      [2, "workspace.set", undefined],
      [3, "key.create", key["id"]],
      [4, "key.create", next["id"]],
      [5, "key.rotate", key["id"]],
      [6, "key.revoke", key["id"]],
    ],
  );
  for (const { actor, workspace_id: workspace } of printed) {
    assert.match(actor, /^cli:./);
    assert.equal(workspace, id);
  }
  assert.deepEqual(printed[1]?.details, { plan: "startup", overage_limit_cu_milli: 7 });
  assert.deepEqual(printed[2]?.details["allowed_addresses"], ["10.0.0.0/8"]);
  assert.deepEqual(key["allowed_addresses"], ["10.0.0.0/8"]);
  assert.deepEqual(next["allowed_addresses"], ["10.0.0.0/8"]);
  for (const { key: text } of [key, next]) {
    assert.ok(!JSON.stringify(printed).includes(String(text).slice(-32)));
  }
});

test("the log is printed after a given change, or for one workspace", async (t) => {
  const line = commandLine(t);
  const [one, two] = [
    await line.json(workspaces, "create", "--name", "One", "--plan", "free"),
    await line.json(workspaces, "create", "--name", "Two", "--plan", "free"),
  ];
  const ids = async (...argv: string[]): Promise<number[]> =>
    (await changes(line, ...argv)).map(({ id }) => id);
  assert.deepEqual(await ids("--workspace", String(two["id"])), [2]);
  assert.deepEqual(await ids("--after", "1"), [2]);
  assert.deepEqual(await ids("--after", "2"), []);
  const { out } = await line.run(audit, "--workspace", String(one["id"]));
  const shown = new RegExp(`^1  \\S+Z  cli:\\S+  workspace.create  ${String(one["id"])}  \\{`);
  assert.match(out.join("\n"), shown);
  const none = await line.run(audit, "--workspace", "ws_none");
  assert.deepEqual(none, { code: 1, out: [], err: ["there is no workspace ws_none"] });
  await assert.rejects(line.run(audit, "--after", "x"), UsageError);
  await assert.rejects(line.run(audit, "list"), UsageError);
});

test("a long log is printed completely", async (t) => {
  const line = commandLine(t);
  const made = await line.json(workspaces, "create", "--name", "Acme", "--plan", "free");
  const workspace = String(made["id"]);
  await withFolderAccounts(line.data, async (store) => {
    const all = Array.from({ length: 2_000 }, (_, at) =>
      store.setWorkspace(workspace, { plan: "free" }, { actor: "test", at }),
    );
    await Promise.all(all);
  });
  const printed = await changes(line);
  assert.deepEqual(
    printed.map(({ id }) => id),
    Array.from({ length: 2_001 }, (_, i) => i + 1),
  );
});

test("a value that is not an address or a block is refused", async (t) => {
  const line = commandLine(t);
  const made = await line.json(workspaces, "create", "--name", "Acme", "--plan", "free");
  const id = String(made["id"]);
  for (const bad of ["", "10.0.0", "10.0.0.0/33", "10.0.0.0/8/8", "example.org", "fe80::1%eth0"]) {
    const wanted = line.run(keys, "create", "--workspace", id, "--allow-ip", bad);
    await assert.rejects(wanted, UsageError, bad);
  }
  assert.equal((await changes(line)).length, 1);
});
