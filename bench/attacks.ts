/**
 * Runs the tests of attacks one after the other and prints the longest health check of each, and the longest CPU time
 * that the main thread took between two turns of its timers. The promise is 200 ms. On a busy machine only the second
 * figure says something.
 *
 *   node bench/attacks.ts
 */
import { join } from "node:path";
import { run } from "node:test";

const tests = join(import.meta.dirname, "../test/e2e");
const files = ["attacks.slow.test.ts", "fair-connections.test.ts"].map((file) => join(tests, file));
const figures = ["longest health check", "longest turn", "highest memory"] as const;

interface Row {
  readonly attack: string;
  readonly values: Map<string, string>;
}

const rows: Row[] = [];
const reported = (name: string, file: string | undefined): void => {
  // A file that is run reports itself, too.
  if (name !== file) rows.push({ attack: name, values: new Map() });
};
const events = run({ files, concurrency: false });
events.on("test:pass", ({ name, file }) => reported(name, file));
events.on("test:fail", ({ name, file }) => {
  reported(`${name} (FAILED)`, file);
  process.exitCode = 1;
});
// Follows the result of its test.
events.on("test:diagnostic", ({ message }) => {
  const [figure = "", value] = message.split(": ");
  if (value !== undefined) rows.at(-1)?.values.set(figure, value);
});
for await (const _ of events);

console.log(`| attack | ${figures.join(" | ")} |\n|---|${"---|".repeat(figures.length)}`);
for (const { attack, values } of rows) {
  const cells = figures.map((figure) => values.get(figure) ?? "");
  console.log(`| ${[attack, ...cells].join(" | ")} |`);
}
