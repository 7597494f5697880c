/**
 * Keeps the parsed pipeline.yaml for the next start, by the hash of its text. Parsing takes a tenth of a start, because
 * the parser runs once and V8 does not optimize it in that time. The expanded values of variables are not kept.
 */
import { hash } from "node:crypto";
import { readKept, writeKept } from "../kept-files.ts";
import type { ParsedYaml, YamlTree } from "./parse-yaml.ts";

/** Returns the kept tree if the text is the same, else parses it. `file`: absolute path. */
export async function parseOnce(text: string, file: string): Promise<ParsedYaml> {
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
