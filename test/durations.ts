/** A reporter for `node --test` that prints how long the run and its slowest files took. DURATIONS=all: all files. */
import { relative } from "node:path";
import type { TestEvent } from "node:test/reporters";

const listed = 10;
const testFile = /\.test\.ts$/;

export default async function* durations(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const files: { readonly file: string; readonly seconds: number }[] = [];
  let total = 0;
  for await (const { type, data } of source) {
    // A file that shares its process is a suite there: see run.ts.
    const isSuite = type === "test:complete" && data.details.type === "suite";
    if (isSuite && data.nesting === 0 && testFile.test(data.name)) {
      files.push({ file: data.name, seconds: data.details.duration_ms / 1000 });
    }
    if (type !== "test:summary") continue;
    if (data.file === undefined) total = data.duration_ms / 1000;
    else if (testFile.test(data.file)) {
      files.push({ file: relative(process.cwd(), data.file), seconds: data.duration_ms / 1000 });
    }
  }
  files.sort((a, b) => b.seconds - a.seconds);
  const shown = process.env["DURATIONS"] === "all" ? files : files.slice(0, listed);
  const minutes = Math.floor(total / 60);
  yield `\n${files.length} files in ${minutes} min ${Math.round(total % 60)} s; the slowest:\n`;
  for (const { file, seconds } of shown) yield `${seconds.toFixed(1).padStart(8)} s  ${file}\n`;
}
