/**
 * Finds out with `npm audit signatures` where a package comes from: whether its registry has signed it, and whether an
 * attestation says from which repository it was built (SLSA provenance).
 */
import { execFile } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { isObject } from "../../is-object.ts";
import type { InstalledPackage } from "../../pipeline/load/plugin-file.ts";
import { PackageError } from "./find-plugins.ts";

const run = promisify(execFile);

/**
 * `verified`: the attestation of the build is valid. `signed`: only the signature of the registry is valid. `unsigned`:
 * the registry signs packages, but not this one. `unknown`: the package does not come from a registry, or nothing could
 * be checked.
 */
export type ProvenanceState = "verified" | "signed" | "unsigned" | "unknown";

export interface Provenance {
  readonly state: ProvenanceState;
  /** Description of the state in one sentence. */
  readonly text: string;
}

/** npm asks the registry and the servers of Sigstore. */
const maxMs = 60_000;
const maxOutputBytes = 64 * 1024 * 1024;

/**
 * Checks an installed package. `spec`: what npm was asked to install. `folder`: the folder with node_modules. Throws
 * PackageError if a signature or attestation is not valid.
 */
export async function provenanceOf(
  installed: InstalledPackage,
  spec: string,
  folder: string,
): Promise<Provenance> {
  if (!isRegistrySpec(spec)) return unknown("the package does not come from a registry");
  // npm checks all packages of a folder, so this package is installed into its own folder.
  const own = mkdtempSync(join(tmpdir(), "sluice-audit-"));
  try {
    const { name, version } = installed;
    const target = join(own, "node_modules", name);
    mkdirSync(target, { recursive: true });
    writeFileSync(join(target, "package.json"), JSON.stringify({ name, version }));
    const dependencies = { [name]: version };
    writeFileSync(join(own, "package.json"), JSON.stringify({ private: true, dependencies }));
    const settings = join(folder, ".npmrc");
    if (existsSync(settings)) symlinkSync(settings, join(own, ".npmrc"));
    return readAudit(await audit(own), installed, integrityIn(folder, name));
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}

/** Returns whether npm looks the package up in a registry: `name`, `name@1.2.3`, `@scope/name@latest`. */
function isRegistrySpec(spec: string): boolean {
  return !spec.endsWith(".tgz") && /^(@[\w.~-]+\/)?[\w~-][\w.~-]*(@[^:/]+)?$/.test(spec);
}

function unknown(reason: string): Provenance {
  return { state: "unknown", text: `unknown: ${reason}` };
}

/** Returns what npm prints. It prints JSON and exits with 1 if it finds a problem. */
async function audit(folder: string): Promise<string> {
  const retry = ["--fetch-retries=1", "--fetch-retry-mintimeout=1000"];
  const args = ["audit", "signatures", "--json", "--include-attestations", ...retry];
  try {
    const options = { cwd: folder, timeout: maxMs, maxBuffer: maxOutputBytes };
    return (await run("npm", args, options)).stdout;
  } catch (error) {
    return isObject(error) && typeof error["stdout"] === "string" ? error["stdout"] : "";
  }
}

/** Returns the digest of the tarball that npm has installed, as in package-lock.json. */
function integrityIn(folder: string, name: string): string | undefined {
  const path = join(folder, "node_modules/.package-lock.json");
  const lock = existsSync(path) ? jsonOf(readFileSync(path, "utf8")) : undefined;
  const line = member(lock, "packages", `node_modules/${name}`, "integrity");
  return typeof line === "string" ? line : undefined;
}

/**
 * Reads the output of `npm audit signatures --json --include-attestations`. `integrity`: the digest of the installed
 * tarball, which the attestation must have. Throws PackageError if npm has found something that is not valid.
 */
export function readAudit(
  output: string,
  { name, version }: Pick<InstalledPackage, "name" | "version">,
  integrity: string | undefined,
): Provenance {
  const result = jsonOf(output);
  if (!isObject(result) || !Array.isArray(result["invalid"]) || !Array.isArray(result["missing"])) {
    const code = member(result, "error", "code");
    const reason = typeof code === "string" ? ` (${printable(code)})` : "";
    return unknown(`npm could not check the signatures${reason}`);
  }
  const isThis = (each: unknown): boolean =>
    member(each, "name") === name && member(each, "version") === version;
  if (result["invalid"].some(isThis)) {
    const what = `${name}@${version} has a signature or attestation that is not valid`;
    throw new PackageError(`${what}; someone may have changed the package`);
  }
  if (result["missing"].some(isThis)) {
    return { state: "unsigned", text: "not signed, although the registry signs packages" };
  }
  const verified: unknown[] = Array.isArray(result["verified"]) ? result["verified"] : [];
  const statements = verified.filter(isThis).flatMap(provenanceStatements);
  const [statement] = statements;
  if (statement === undefined) {
    return { state: "signed", text: "signed by the registry; no attestation names its source" };
  }
  if (integrity === undefined || !statements.every((each) => isAbout(each, integrity))) {
    throw new PackageError(`the attestation of ${name}@${version} is for other files`);
  }
  const source = sourceOf(statement);
  return {
    state: "verified",
    text: `verified${source === undefined ? "" : `: built from ${source}`}`,
  };
}

/** Returns the in-toto statements about the build. npm has verified their signatures. */
function provenanceStatements(entry: unknown): unknown[] {
  const bundles = member(entry, "attestationBundles");
  if (!Array.isArray(bundles)) return [];
  return bundles.flatMap((each: unknown) => {
    const type = member(each, "predicateType");
    const payload = member(each, "bundle", "dsseEnvelope", "payload");
    const isProvenance =
      typeof type === "string" && type.startsWith("https://slsa.dev/provenance/");
    if (!isProvenance || typeof payload !== "string") return [];
    return [jsonOf(Buffer.from(payload, "base64").toString())];
  });
}

function isAbout(statement: unknown, integrity: string): boolean {
  const subjects = member(statement, "subject");
  if (!Array.isArray(subjects)) return false;
  return subjects.some((subject: unknown) => {
    const digest = member(subject, "digest", "sha512");
    if (typeof digest !== "string") return false;
    return integrity === `sha512-${Buffer.from(digest, "hex").toString("base64")}`;
  });
}

/** Returns the repository and the branch or tag of the build, as GitHub and GitLab state them. */
function sourceOf(statement: unknown): string | undefined {
  const workflow = ["predicate", "buildDefinition", "externalParameters", "workflow"];
  const repository = member(statement, ...workflow, "repository");
  const ref = member(statement, ...workflow, "ref");
  if (typeof repository !== "string") return undefined;
  return printable(typeof ref === "string" ? `${repository} at ${ref}` : repository);
}

/** Returns undefined for text that is not JSON. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function member(value: unknown, ...names: readonly string[]): unknown {
  return names.reduce<unknown>(
    (found, name) => (isObject(found) && Object.hasOwn(found, name) ? found[name] : undefined),
    value,
  );
}

/** Removes characters that could control the terminal. */
function printable(text: string): string {
  return text.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, 300);
}
