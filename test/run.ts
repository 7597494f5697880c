/**
 * Runs `node --test` with all test files, or with `--quick` those that start no whole processes. The latter share
 * processes, because loading Node and the gateway takes longer than most of their tests. Further arguments are passed to
 * Node.
 */
import { spawnSync } from "node:child_process";
import { globSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const root = join(import.meta.dirname, "..");
const filesPerGroup = 10;
/** Files that start whole processes, or that depend on what their process has loaded. */
const alone =
  /\.slow\.test\.ts$|^test\/(chaos|clients|deploy|docs|e2e|fuzz|gateway|package|threads)\/|\/(client|commands|worker)\//;

const [first, ...rest] = process.argv.slice(2);
const isQuick = first === "--quick";
const options = isQuick || first === undefined ? rest : [first, ...rest];
const files = globSync("test/**/*.test.ts", { cwd: root, exclude: ["**/node_modules"] }).toSorted();
const shared = files.filter((file) => !alone.test(file));
const ungrouped = isQuick ? [] : files.filter((file) => alone.test(file));

/**
 * Each file is a suite, to which its hooks belong. The files are loaded one after the other: if two of them waited for
 * the same helper, the tests of both would belong to the first.
 */
function groupOf(names: readonly string[]): string {
  const urls = names.map((name) => [name, pathToFileURL(join(root, name)).href]);
  return `
import { suite } from "node:test";
for (const [name, url] of ${JSON.stringify(urls)}) {
  const { promise, resolve } = Promise.withResolvers();
  suite(name, () => import(url).finally(resolve));
  await promise;
}
`;
}

const folder = mkdtempSync(join(tmpdir(), "sluice-tests-"));
try {
  const groups: string[] = [];
  for (let at = 0; at < shared.length; at += filesPerGroup) {
    const group = join(folder, `${String(groups.length).padStart(2, "0")}.mjs`);
    writeFileSync(group, groupOf(shared.slice(at, at + filesPerGroup)));
    groups.push(group);
  }
  const reporters = [
    `--test-reporter=${isQuick ? "dot" : "spec"}`,
    "--test-reporter-destination=stdout",
    "--test-reporter=./test/durations.ts",
    "--test-reporter-destination=stdout",
  ];
  const { status } = spawnSync(
    process.execPath,
    ["--test", "--test-concurrency=3", ...reporters, ...options, ...ungrouped, ...groups],
    {
      cwd: root,
      stdio: "inherit",
      env: {
        ...process.env,
        // Hundreds of processes load the same modules.
        NODE_COMPILE_CACHE: join(folder, "compile-cache"),
        // test/e2e/gateway-process.ts reads it.
        SLUICE_TEST_BUILT: String(!isQuick),
      },
    },
  );
  process.exitCode = status ?? 1;
} finally {
  rmSync(folder, { recursive: true });
}
