/** The tool calls of the demo model, for the tools of different agents. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempDisposable, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileTask } from "../../../../plugins/inference/demo/file-task.ts";

const tool = (name: string, properties: object, required: readonly string[] = []) => ({
  type: "function",
  function: { name, parameters: { type: "object", properties, required } },
});
const text = { type: "string" };
const bash = tool("bash", { command: text, description: text }, ["command", "description"]);
const shell = tool("shell", { command: { type: "array", items: text } }, ["command"]);
const write = tool("write", { filePath: text, content: text }, ["filePath", "content"]);

test("a tool that runs commands is preferred, and all its required arguments are filled in", () => {
  const call = fileTask("Create hello.txt", [write, bash]);
  assert.equal(call?.name, "bash");
  const { command, description } = JSON.parse(call.arguments) as Record<string, string>;
  assert.equal(command, "printf '%s\\n' 'Written by the demo model of Sluice.' > hello.txt");
  assert.equal(typeof description, "string");
});

test("quotes in the contents cannot end the command", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "sluice-file-task-"));
  const call = fileTask("create a.txt: it's; 'quoted' $(exit 1)", [shell]);
  const { command } = JSON.parse(call?.arguments ?? "{}") as { command: [string, ...string[]] };
  const [program, ...args] = command;
  spawnSync(program, args, { cwd: folder.path });
  assert.equal(await readFile(join(folder.path, "a.txt"), "utf8"), "it's; 'quoted' $(exit 1)\n");
});

test("without such a tool, one that writes files is called", () => {
  const call = fileTask("Create notes/a.md: milk", [tool("read", { path: text }), write]);
  assert.equal(call?.name, "write");
  assert.deepEqual(JSON.parse(call.arguments), { filePath: "notes/a.md", content: "milk\n" });
});

test("the task is found between the texts that agents add", () => {
  const call = fileTask("<reminder>\nCreate things\n</reminder>\nCreate a.txt: b\nToday is …", [
    write,
  ]);
  assert.deepEqual(JSON.parse(call?.arguments ?? "{}"), { filePath: "a.txt", content: "b\n" });
});

for (const [prompt, tools, why] of [
  ["Explain hello.txt", [bash], "a prompt that asks for something else"],
  ["Create", [bash], "a prompt without a name"],
  ["Create $(id).txt", [bash], "a name that a shell would interpret"],
  ["Create it", [bash], "a name that is not one of a file"],
  ["Create a.txt", [tool("read", { path: text })], "no tool that can write"],
  ["Create a.txt", "bash", "tools that are not a list"],
  [
    "Create a.txt",
    [null, { function: { name: 1 } }, { function: { name: "x" } }],
    "malformed tools",
  ],
] as const) {
  test(`no tool is called for ${why}`, () => {
    assert.equal(fileTask(prompt, tools), undefined);
  });
}
