/** The completion scripts, read by the shells that are installed. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { allCommands } from "../../src/commands/all.ts";
import { temporaryFolder } from "../store/folder.ts";
import { commandLine } from "./command-line.ts";

const main = join(import.meta.dirname, "../../src/main.ts");
const script = (shell: string): string => {
  const { stdout, stderr } = spawnSync(process.execPath, [main, "completion", shell], {
    encoding: "utf8",
  });
  assert.equal(stderr, "");
  return stdout;
};

test("bash completes commands, subcommands and options", (t) => {
  const file = join(temporaryFolder(t), "completion.bash");
  writeFileSync(file, script("bash"));
  /** The last word is the one that is completed. */
  const complete = (...words: readonly string[]): string[] => {
    const run = `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sluice; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout, stderr } = spawnSync("bash", ["--norc", "-c", run, "bash", file, ...words], {
      encoding: "utf8",
    });
    assert.equal(stderr, "");
    return stdout.split("\n").filter((word) => word !== "");
  };
  assert.deepEqual(complete("sluice", "st"), ["start", "store"]);
  assert.deepEqual(complete("sluice", "keys", "re"), ["revoke"]);
  assert.deepEqual(complete("sluice", "keys", "create", "--cu"), ["--cu-24h", "--cu-30d"]);
  assert.deepEqual(complete("sluice", "check", "--s"), ["--strict"]);
  assert.deepEqual(complete("sluice", "help", "back"), ["backup"]);
  // An option with a value, and an unknown command: bash completes names of files.
  assert.deepEqual(complete("sluice", "check", "--config", ""), []);
  assert.deepEqual(complete("sluice", "unknown", ""), []);
});

for (const shell of ["zsh", "fish"]) {
  const skip = spawnSync(shell, ["--version"]).error !== undefined && `${shell} is not installed`;
  test(`${shell} accepts the script`, { skip }, (t) => {
    const file = join(temporaryFolder(t), `completion.${shell}`);
    writeFileSync(file, script(shell));
    const { status, stderr } = spawnSync(shell, ["-n", file], { encoding: "utf8" });
    assert.equal(status, 0, stderr);
  });
}

test("each script contains every command", async () => {
  for (const shell of ["bash", "zsh", "fish"]) {
    const text = script(shell);
    for (const name of Object.keys(await allCommands())) {
      for (const word of name.split(" --")) assert.match(text, new RegExp(word));
    }
  }
});

test("the subcommands for completion are those that a command has", async (t) => {
  const { run } = commandLine(t);
  for (const { load } of Object.values(await allCommands())) {
    const command = await load();
    if (command.subcommands === undefined) continue;
    await assert.rejects(run(command), {
      message: `missing subcommand, expected one of ${command.subcommands.join(", ")}`,
    });
  }
});
