/** The package as it is published: what operators run, without the compiler of types that development loads. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");
let entry: string | undefined;

/** Builds dist/ once a run; the file that `node` runs as `sluice`. */
export function builtEntry(): string {
  entry ??= build();
  return entry;
}

function build(): string {
  execFileSync(process.execPath, [join(root, ".ci/build.ts")], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  return join(root, "dist/src/main.js");
}
