import { isUtf8 } from "node:buffer";
import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Config } from "./config.ts";
import type { Environment } from "./environment.ts";
import { fault, type Fault } from "./fault.ts";
import type { SectionOwner } from "./sections.ts";
import { shapeConfig } from "./shape.ts";
import type { ParsedYaml, YamlTree } from "./parse-yaml.ts";
import { locateYaml } from "./yaml.ts";
import { errorCode } from "../base/error-code.ts";
import { readKept, writeKept } from "../kept-files.ts";

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
  let bytes: Buffer;
  try {
    bytes = await readFile(file);
  } catch (error) {
    const code = errorCode(error) ?? "unknown";
    const at = { file, line: 1, col: 1 };
    const found =
      code === "ENOENT"
        ? fault("SLUICE_FILE_MISSING", "the file does not exist", { at })
        : fault("SLUICE_FILE_UNREADABLE", `the file cannot be read (${code})`, { at });
    return { config: undefined, faults: [found] };
  }
  if (!isUtf8(bytes)) {
    // Each byte that is not UTF-8 would silently become another character, in a password, for example.
    const at = { file, line: 1, col: 1 };
    const remedy = "Save the file as UTF-8.";
    const found = fault("SLUICE_FILE_UNREADABLE", "the file is not UTF-8 text", { at, remedy });
    return { config: undefined, faults: [found] };
  }
  return readText(bytes.toString("utf8"), file, env, services);
}

/** `file`: where the text was read. The parsed text is kept for the next start. */
export async function readText(
  text: string,
  file: string,
  env: Environment,
  services: readonly SectionOwner[] = [],
): Promise<ParsedConfig> {
  return configOf(await parseOnce(text, file), { file, text }, env, services);
}

/**
 * Keeps the parsed pipeline.yaml for the next start, by the hash of its text. Parsing takes a tenth of a start, because
 * the parser runs once and V8 does not optimize it in that time. The expanded values of variables are not kept.
 */
async function parseOnce(text: string, file: string): Promise<ParsedYaml> {
  // There is one kept file for each pipeline.yaml, so that changes of it do not fill the folder.
  const name = `yaml-${hash("sha256", file).slice(0, 16)}`;
  const textHash = Buffer.from(hash("sha256", text));
  const kept = readKept(name);
  if (kept?.subarray(0, textHash.length).equals(textHash) === true) {
    // This build has written it.
    const tree = JSON.parse(kept.toString("utf8", textHash.length)) as YamlTree;
    return { tree, faults: [] };
  }
  // The parser is only loaded for a file that has changed.
  const { parseYaml } = await import("./parse-yaml.ts");
  const parsed = parseYaml(text, file);
  if (parsed.tree !== undefined && parsed.faults.length === 0) {
    writeKept(name, Buffer.concat([textHash, Buffer.from(JSON.stringify(parsed.tree))]));
  }
  return parsed;
}

/** Converts the YAML of a file to its configuration. */
export function configOf(
  { tree, faults: yamlFaults }: ParsedYaml,
  source: { readonly file: string; readonly text: string },
  env: Environment,
  services: readonly SectionOwner[],
): ParsedConfig {
  const located = tree && locateYaml(tree, source.file, env);
  const faults = [...yamlFaults, ...(located?.faults ?? [])];
  const root = located?.root;
  if (root?.kind === "map") {
    const shaped = shapeConfig(root, source, env, services);
    return { config: shaped.config, faults: [...faults, ...shaped.faults] };
  }
  if (faults.length > 0) return { config: undefined, faults };
  const at = root?.at ?? { file: source.file, line: 1, col: 1 };
  const isEmpty = root === undefined || (root.kind === "scalar" && root.value === null);
  const message = isEmpty ? "the file is empty" : "the file: expected a mapping";
  return { config: undefined, faults: [fault("SLUICE_FILE_EMPTY", message, { at })] };
}
