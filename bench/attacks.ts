/**
 * Prints the longest health check of each test of attacks, and the longest CPU time that the main thread took between
 * two turns of its timers. The promise is 200 ms. On a busy machine only the second figure says something.
 *
 *   node bench/attacks.ts
 */
import { join } from "node:path";
import { run } from "node:test";

const tests = join(import.meta.dirname, "../test/e2e");
const names = ["attacks.slow", "stream-attacks.slow", "fair-connections"];
const files = names.map((name) => join(tests, `${name}.test.ts`));
const figures = ["longest health check", "longest turn", "highest memory"] as const;

console.log(`| attack | ${figures.join(" | ")} |\n|---|${"---|".repeat(figures.length)}`);
let attack: string | undefined;
const values = new Map<string, string>();

function printRow(): void {
  const cells = figures.map((figure) => values.get(figure) ?? "");
  if (attack !== undefined) console.log(`| ${[attack, ...cells].join(" | ")} |`);
  values.clear();
  attack = undefined;
}

/** A file that is run reports itself, too. */
function ended(name: string, file: string | undefined): void {
  printRow();
  if (name !== file) attack = name;
}

const events = run({ files, concurrency: false });
events.on("test:pass", ({ name, file }) => ended(name, file));
events.on("test:fail", ({ name, file }) => {
  ended(`${name} (FAILED)`, file);
  process.exitCode = 1;
});
events.on("test:diagnostic", ({ message }) => {
  const [figure = "", value] = message.split(": ");
  if (value !== undefined) values.set(figure, value);
});
for await (const _ of events);
printRow();
