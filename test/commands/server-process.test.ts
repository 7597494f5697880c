/** The process of `sluice start` replaces itself once, to run with settings for malloc and the heap. */
import assert from "node:assert/strict";
import { execFile, spawn, type StdioOptions } from "node:child_process";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { promisify } from "node:util";

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
