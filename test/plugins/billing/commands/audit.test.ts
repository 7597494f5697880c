import assert from "node:assert/strict";
import { test } from "node:test";
import { audit } from "../../../../plugins/billing/commands/audit.ts";
import { UsageError } from "../../../../src/commands/command.ts";
import { workspaces } from "../../../../plugins/billing/commands/workspaces.ts";
import { commandLine } from "../../../commands/command-line.ts";
import { withFolderAccounts } from "../accounts/open-accounts.ts";

test("without --json, a change is a line; an unknown workspace or a wrong option is refused", async (t) => {
  const line = commandLine(t);
  const one = await line.json(workspaces, "create", "--name", "One", "--plan", "free");
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
  const { out } = await line.run(audit, "--json");
  assert.deepEqual(
    out.map((printed) => (JSON.parse(printed) as { id: number }).id),
    Array.from({ length: 2_001 }, (_, i) => i + 1),
  );
});
