/** The package as it is published: what operators run, without the compiler of types that development loads. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");
let command: readonly string[] | undefined;

/** Builds dist/ once a run; the command line of `sluice`, with the flags of Node that its first line asks for. */
export function builtSluice(): readonly string[] {
  command ??= build();
  return command;
}

function build(): readonly string[] {
  execFileSync(process.execPath, [join(root, ".ci/build.ts")], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const entry = join(root, "dist/src/main.js");
  const [, flags = ""] = /^#!\/usr\/bin\/env -S node(.*)/.exec(readFileSync(entry, "utf8")) ?? [];
  return [process.execPath, ...flags.split(" ").filter(Boolean), entry];
}
