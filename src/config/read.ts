/** Reads pipeline.yaml: text to located tree to validated shape to `Config`. Collects every fault on the way. */
import { readFile } from "node:fs/promises";
import type { Config } from "./config.ts";
import type { Environment } from "./environment.ts";
import { fault, type Fault } from "./fault.ts";
import { shapeConfig } from "./shape.ts";
import { readYaml } from "./yaml.ts";

export interface Reading {
  /**
   * Present whenever the file is YAML with a mapping at the top, so that later checks can find more faults. Fit to run
   * only when there are none.
   */
  readonly config: Config | undefined;
  readonly faults: readonly Fault[];
}

/** `file` is absolute: positions carry it, and relative paths in the file start in its folder. */
export async function readConfig(file: string, env: Environment): Promise<Reading> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unknown";
    const at = { file, line: 1, col: 1 };
    const found =
      code === "ENOENT"
        ? fault("SLUICE_FILE_MISSING", "this file does not exist", { at })
        : fault("SLUICE_FILE_UNREADABLE", `the file cannot be read (${code})`, { at });
    return { config: undefined, faults: [found] };
  }
  return parseConfig(text, file, env);
}

export function parseConfig(text: string, file: string, env: Environment): Reading {
  const { root, faults } = readYaml(text, file, env);
  if (root?.kind === "map") {
    const shaped = shapeConfig(root, file, env);
    return { config: shaped.config, faults: [...faults, ...shaped.faults] };
  }
  if (faults.length > 0) return { config: undefined, faults };
  const at = root?.at ?? { file, line: 1, col: 1 };
  const isEmpty = root === undefined || (root.kind === "scalar" && root.value === null);
  const message = isEmpty ? "the file is empty" : "the file must be a mapping";
  return { config: undefined, faults: [fault("SLUICE_FILE_EMPTY", message, { at })] };
}
