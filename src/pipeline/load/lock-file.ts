/**
 * The file `pipeline.lock` next to pipeline.yaml: the packages of plugins that an operator has accepted, with their
 * versions, the digests of their files and their grants. `sluice plugin add` writes it. If it exists, every installed
 * plugin must match its line.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parse, stringify } from "yaml";
import { stableJson } from "../../canonical-json.ts";
import { fault, type Fault, type Position } from "../../config/fault.ts";
import type { Grants } from "../../contract/permissions.ts";
import { isObject } from "../../is-object.ts";
import { packageDigest } from "./package-digest.ts";
import { grantsOfData, type InstalledPackage, type PluginData } from "./plugin-file.ts";

/** One line: an accepted plugin. */
export interface LockLine {
  readonly version: string;
  /** Digest of the files of the package: see `packageDigest`. */
  readonly integrity: string;
  /** Missing if the manifest names no version of the contract. */
  readonly contract?: string;
  readonly grants: Grants;
  /** The provenance of the package, as `sluice plugin add` has determined it. A start does not compare it. */
  readonly provenance?: string;
}

/** The lines, by the source of the plugin, which is its value under `plugins:`. */
export type LockFile = ReadonlyMap<string, LockLine>;

export function lockPath(configFile: string): string {
  return join(dirname(configFile), "pipeline.lock");
}

/** Returns undefined if there is no file. Throws an Error if it cannot be read. */
export function readLock(configFile: string): LockFile | undefined {
  const path = lockPath(configFile);
  if (!existsSync(path)) return undefined;
  const value: unknown = parse(readFileSync(path, "utf8")) ?? {};
  if (!isObject(value)) throw new Error("expected a mapping of plugins");
  for (const [source, line] of Object.entries(value)) {
    if (!isObject(line) || typeof line["version"] !== "string" || !isObject(line["grants"])) {
      throw new Error(`the line of "${source}" must have version, integrity and grants`);
    }
  }
  // Every line has been checked. The other members are compared with those that are expected.
  return new Map(Object.entries(value) as unknown as [string, LockLine][]);
}

const heading =
  "# The accepted plugins. `sluice plugin add` writes this file; keep it under version control.\n";

export function writeLock(configFile: string, lines: LockFile): void {
  const sorted = [...lines].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const options = { collectionStyle: "flow", lineWidth: 0, flowCollectionPadding: true } as const;
  const text = sorted.map(
    ([source, line]) => `${stringify(source).trim()}: ${stringify(line, options)}`,
  );
  writeFileSync(lockPath(configFile), heading + text.join(""));
}

/** Returns the line of an installed plugin. Throws an Error if a digest of its package is not possible. */
export function lockLine(installed: InstalledPackage, data: PluginData): LockLine {
  return {
    version: installed.version,
    integrity: packageDigest(installed.folder),
    ...(data.contract !== undefined && { contract: data.contract }),
    grants: grantsOfData(data),
  };
}

/** Returns the fault of a linked plugin that has a line: local code has no version that could match. */
export function linkFaults(lock: LockFile, source: string, file: string, at: Position): Fault[] {
  const locked = lock.get(source);
  if (locked === undefined) return [];
  const message = `pipeline.lock lists ${source} with version ${locked.version}, but the package is a link to ${file}`;
  return [fault("SLUICE_LOCK_DIFFERS", message, { at })];
}

/** Returns the faults of an installed plugin that has no line or differs from it. */
export function lockFaults(
  lock: LockFile,
  source: string,
  installed: InstalledPackage,
  data: PluginData,
  at: Position,
): Fault[] {
  const locked = lock.get(source);
  if (locked === undefined) {
    const message = `the plugin ${source} is not in pipeline.lock`;
    return [fault("SLUICE_LOCK_MISSING", message, { at })];
  }
  const differences: string[] = [];
  let actual: LockLine;
  try {
    actual = lockLine(installed, data);
  } catch (error) {
    const message = `${source} cannot be compared with pipeline.lock: ${messageOf(error)}`;
    return [fault("SLUICE_LOCK_DIFFERS", message, { at })];
  }
  if (locked.version !== actual.version) {
    differences.push(`version ${locked.version}, but ${actual.version} is installed`);
  } else if (locked.integrity !== actual.integrity) {
    differences.push("files that differ from the installed ones");
  }
  if (locked.contract !== actual.contract) {
    differences.push(
      `contract ${locked.contract ?? "none"}, but the installed version has ${actual.contract ?? "none"}`,
    );
  }
  if (stableJson(locked.grants) !== stableJson(actual.grants)) {
    differences.push("grants that differ from those that the plugin asks for");
  }
  if (differences.length === 0) return [];
  const message = `pipeline.lock lists ${source} with ${differences.join("; with ")}`;
  return [fault("SLUICE_LOCK_DIFFERS", message, { at })];
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
