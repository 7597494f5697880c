/** The process of `sluice start` replaces itself once, to run with memory settings; its compile cache is private. */
import assert from "node:assert/strict";
import { execFile, spawn, type StdioOptions } from "node:child_process";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { promisify } from "node:util";
import {
  chmodSync,
  chownSync,
  mkdirSync,
  rmdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { privateFolder } from "../../src/commands/compile-cache.ts";
import { temporaryFolder } from "../store/folder.ts";

const runFile = promisify(execFile);

const subject = new URL("../../src/commands/server-process.ts", import.meta.url).href;
const threshold = "MALLOC_MMAP_THRESHOLD_";

interface ChildOutput {
  readonly pid: number;
  readonly flags: readonly string[];
  readonly args: readonly string[];
  readonly threshold?: string;
}

const code = `
  import { becomeServerProcess } from ${JSON.stringify(subject)};
  becomeServerProcess(8);
  const { pid, execArgv, argv, env } = process;
  console.log(JSON.stringify({ pid, flags: execArgv, args: argv.slice(1), threshold: env.${threshold} }));
`;
const asModule = ["--input-type=module", "--eval", code];

async function run(
  args: readonly string[],
  options: { readonly env?: NodeJS.ProcessEnv; readonly stdio?: StdioOptions } = {},
): Promise<{ readonly output: ChildOutput; readonly pid: number | undefined }> {
  const { env = process.env, stdio = ["ignore", "pipe", "inherit"] } = options;
  const child = spawn(process.execPath, args, { env, stdio });
  assert.ok(child.stdout);
  return { output: JSON.parse(await text(child.stdout)) as ChildOutput, pid: child.pid };
}

const { [threshold]: _, ...plainEnv } = process.env;

test("the process is replaced once, by one with the same id, streams and arguments", async () => {
  const own = ["--max-old-space-size=500", ...asModule];
  const { output, pid } = await run([...own, "one", "two words"], { env: plainEnv });
  assert.deepEqual(output, {
    pid,
    flags: ["--max-semi-space-size=8", "--min-semi-space-size=8", ...own],
    args: ["one", "two words"],
    threshold: "32768",
  });
});

test("malloc settings of the environment take precedence", async () => {
  const { output } = await run(asModule, { env: { ...plainEnv, [threshold]: "65536" } });
  assert.equal(output.threshold, "65536");
});

for (const [what, args, stdio] of [
  ["whose parent has a channel to it", asModule, ["ignore", "pipe", "inherit", "ipc"]],
  [
    "that may start no other",
    ["--permission", "--allow-fs-read=*", ...asModule],
    ["ignore", "pipe", "ignore"],
  ],
] as const) {
  test(`a process ${what} is not replaced`, async () => {
    const { output, pid } = await run(args, { env: plainEnv, stdio: [...stdio] });
    assert.deepEqual(output, { pid, flags: args, args: [] });
  });
}

/** Allocates and keeps about 360 MiB, during which V8 collects the heap several times. */
const growHeap = `
  import { limitHeapGrowth } from ${JSON.stringify(subject)};
  if (process.argv[1] === "limited") limitHeapGrowth();
  const kept = [];
  while (kept.length < 600) kept.push(Array.from({ length: 10_000 }, () => ({})));
`;

async function collections(flags: readonly string[], args: readonly string[]): Promise<number> {
  const command = [...flags, "--trace-gc", "--input-type=module", "--eval", growHeap, ...args];
  const { stdout } = await runFile(process.execPath, command);
  return stdout.match(/Mark-Compact [\d.]+/g)?.length ?? 0;
}

test("a limited heap is collected more often while it grows", async () => {
  const limited = await collections([], ["limited"]);
  const unlimited = await collections([], []);
  assert.ok(limited > unlimited, `${limited} and ${unlimited} collections`);
  // A value on the command line takes precedence.
  const own = await collections(["--heap-growing-percent=100"], ["limited"]);
  assert.ok(own < limited, `${own} and ${limited} collections`);
});

test("the compile cache is in a folder that only the user can open", (t) => {
  const parent = temporaryFolder(t);
  const folder = privateFolder(parent) ?? assert.fail();
  assert.equal(statSync(folder).mode & 0o777, 0o700);
  assert.equal(privateFolder(parent), folder);
});

test("there is no compile cache if another user may have made its folder", (t) => {
  const parent = temporaryFolder(t);
  const folder = privateFolder(parent) ?? assert.fail();
  for (const mode of [0o755, 0o720, 0o777, 0o1777]) {
    chmodSync(folder, mode);
    assert.equal(privateFolder(parent), undefined, mode.toString(8));
  }
  chmodSync(folder, 0o700);
  // Only root can give a folder away.
  if (process.getuid?.() === 0) {
    chownSync(folder, 65_532, 65_532);
    assert.equal(privateFolder(parent), undefined);
  }
  rmdirSync(folder);
  const own = join(parent, "own");
  mkdirSync(own, { mode: 0o700 });
  symlinkSync(own, folder);
  assert.equal(privateFolder(parent), undefined);
});

test("there is no compile cache if its folder cannot be made", (t) => {
  const parent = temporaryFolder(t);
  writeFileSync(join(parent, "file"), "");
  assert.equal(privateFolder(join(parent, "file")), undefined);
});
