/** The command line as a process: which command, what is printed where, and the exit code. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";

const main = join(import.meta.dirname, "../src/main.ts");

function sluice(args: readonly string[], nodeArgs: readonly string[] = []) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [...nodeArgs, main, ...args], {
    encoding: "utf8",
  });
  return { status, stdout, stderr };
}

test("--help lists the commands on standard output, exit 0", () => {
  const { status, stdout, stderr } = sluice(["--help"]);
  assert.equal(status, 0, stderr);
  assert.match(stdout, /^usage: sluice <command>[^]*\n {2}check +check pipeline\.yaml/);
});

test("without a command the same stands on standard error, exit 2", () => {
  const { status, stdout, stderr } = sluice([]);
  assert.equal(status, 2);
  assert.equal(stdout, "");
  assert.match(stderr, /^usage: sluice <command>/);
});

test("a command that there is not is named, exit 2", () => {
  for (const name of ["strat", "__proto__", "toString"]) {
    const { status, stderr } = sluice([name]);
    assert.equal(status, 2);
    assert.ok(stderr.startsWith(`sluice: unknown command "${name}"`), stderr);
  }
});

test("a wrong option points at the command's own help, exit 2", () => {
  const { status, stderr } = sluice(["check", "--wirte-schema", "x"]);
  assert.equal(status, 2);
  assert.match(stderr, /^sluice check: .*--wirte-schema[^]*see: sluice check --help\n$/);
});

test("a Node that is too old is told which one is wanted, exit 1", () => {
  const old = `Object.defineProperty(process, "versions", { value: { node: "20.20.2" } })`;
  const { status, stderr } = sluice(["--help"], ["--import", `data:text/javascript,${old}`]);
  assert.equal(status, 1);
  assert.equal(stderr, "sluice needs Node 24 or later, and this is 20.20.2.\n");
});
