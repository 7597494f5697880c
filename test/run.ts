/**
 * Runs `node --test` with all test files, or with `--quick` those that start no whole processes. The latter share
 * processes, because loading Node and the gateway takes longer than most of their tests. Further arguments are passed to
 * Node.
 */
import { spawnSync } from "node:child_process";
import { globSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const root = join(import.meta.dirname, "..");
const groups = join(root, "node_modules/.cache/test-groups");
const filesPerGroup = 10;
/** Files that start whole processes, or change what is shared in theirs. */
const alone =
  /\.slow\.test\.ts$|^test\/(chaos|clients|deploy|docs|e2e|fuzz|package|threads)\/|\/commands\//;

const args = process.argv.slice(2);
const isQuick = args[0] === "--quick";
const files = globSync("test/**/*.test.ts", { cwd: root, exclude: ["**/node_modules"] }).toSorted();
const shared = files.filter((file) => !alone.test(file));

rmSync(groups, { recursive: true, force: true });
mkdirSync(groups, { recursive: true });
const grouped = Array.from({ length: Math.ceil(shared.length / filesPerGroup) }, (_, index) => {
  const group = join(groups, `${String(index).padStart(2, "0")}.mjs`);
  const first = index * filesPerGroup;
  writeFileSync(group, groupOf(shared.slice(first, first + filesPerGroup)));
  return group;
});

/** The hooks of a file belong to its suite, so they run before and after the tests of this file. */
function groupOf(names: readonly string[]): string {
  const suites = names.map((name) => {
    const url = pathToFileURL(join(root, name)).href;
    return `suite(${JSON.stringify(name)}, () => import(${JSON.stringify(url)}));\n`;
  });
  return `import { suite } from "node:test";\n${suites.join("")}`;
}

const reporters = [
  `--test-reporter=${isQuick ? "dot" : "spec"}`,
  "--test-reporter-destination=stdout",
  "--test-reporter=./test/durations.ts",
  "--test-reporter-destination=stdout",
];
const ungrouped = isQuick ? [] : files.filter((file) => alone.test(file));
const { status } = spawnSync(
  process.execPath,
  [
    "--test",
    "--test-concurrency=3",
    ...reporters,
    ...args.slice(isQuick ? 1 : 0),
    ...ungrouped,
    ...grouped,
  ],
  { cwd: root, stdio: "inherit" },
);
process.exitCode = status ?? 1;
