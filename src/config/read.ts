import { readFile } from "node:fs/promises";
import type { Config } from "./config.ts";
import type { Environment } from "./environment.ts";
import { fault, type Fault } from "./fault.ts";
import type { SectionOwner } from "./sections.ts";
import { shapeConfig } from "./shape.ts";
import { readYaml } from "./yaml.ts";
import { errorCode } from "../base/error-code.ts";

export interface ParsedConfig {
  /**
   * Defined if the top level is a mapping, so that later checks can find more faults. Run it only if `faults` is empty.
   */
  readonly config: Config | undefined;
  readonly faults: readonly Fault[];
}

/** `file`: an absolute path. Paths in the file are relative to its folder. */
export async function readConfig(
  file: string,
  env: Environment,
  services: readonly SectionOwner[] = [],
): Promise<ParsedConfig> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    const code = errorCode(error) ?? "unknown";
    const at = { file, line: 1, col: 1 };
    const found =
      code === "ENOENT"
        ? fault("SLUICE_FILE_MISSING", "the file does not exist", { at })
        : fault("SLUICE_FILE_UNREADABLE", `the file cannot be read (${code})`, { at });
    return { config: undefined, faults: [found] };
  }
  return parseConfig(text, file, env, services);
}

export function parseConfig(
  text: string,
  file: string,
  env: Environment,
  services: readonly SectionOwner[] = [],
): ParsedConfig {
  const { root, faults } = readYaml(text, file, env);
  if (root?.kind === "map") {
    const shaped = shapeConfig(root, { file, text }, env, services);
    return { config: shaped.config, faults: [...faults, ...shaped.faults] };
  }
  if (faults.length > 0) return { config: undefined, faults };
  const at = root?.at ?? { file, line: 1, col: 1 };
  const isEmpty = root === undefined || (root.kind === "scalar" && root.value === null);
  const message = isEmpty ? "the file is empty" : "the file: expected a mapping";
  return { config: undefined, faults: [fault("SLUICE_FILE_EMPTY", message, { at })] };
}
