/** Builds the published package, which operators run: it does not strip types at the start, as a checkout does. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");
let command: readonly string[] | undefined;

/** The build runs once per process. Returns the command line of `sluice`. */
export function builtSluice(): readonly string[] {
  command ??= build();
  return command;
}

function build(): readonly string[] {
  execFileSync(process.execPath, [join(root, ".ci/build.ts")], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  return [process.execPath, join(root, "dist/src/main.js")];
}
