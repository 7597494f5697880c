import type { Environment } from "./environment.ts";
import { parseYaml } from "./parse-yaml.ts";
import { configOf, type ParsedConfig } from "./read.ts";
import type { SectionOwner } from "./sections.ts";

/** Reads a configuration that is not in a file, and keeps nothing. `file`: for positions and relative paths. */
export function parseConfig(
  text: string,
  file: string,
  env: Environment,
  services: readonly SectionOwner[] = [],
): ParsedConfig {
  return configOf(parseYaml(text, file), { file, text }, env, services);
}
