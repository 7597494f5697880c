/** The manifest of a backup: the first file of the archive, which lists the others with their checksums. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { schemaCompiler } from "../../base/schema-compiler.ts";

export const manifestName = "manifest.json";
const format = 1;

export interface BackedUpFile {
  readonly bytes: number;
  readonly sha256: string;
  /** Only for databases. */
  readonly schemaVersion?: number;
}

export interface Manifest {
  readonly format: typeof format;
  readonly version: string;
  /** The moment that the backup shows, in RFC 3339. */
  readonly takenAt: string;
  readonly files: Readonly<Record<string, BackedUpFile>>;
}

const file = {
  type: "object",
  properties: {
    bytes: { type: "integer", minimum: 0 },
    sha256: { type: "string", pattern: "^[0-9a-f]{64}$" },
    schemaVersion: { type: "integer", minimum: 0 },
  },
  required: ["bytes", "sha256"],
};
const isManifest = schemaCompiler("manifest of a backup", {});
const schema = {
  type: "object",
  properties: {
    format: { const: format },
    version: { type: "string" },
    takenAt: { type: "string" },
    files: {
      type: "object",
      // Names of files in the data folder, never paths.
      propertyNames: { pattern: "^[a-z][a-z0-9-]*(\\.[a-z]+)?$" },
      additionalProperties: file,
    },
  },
  required: ["format", "version", "takenAt", "files"],
};

export function createManifest(members: Omit<Manifest, "format">): Manifest {
  return { format, ...members };
}

/** Returns undefined if the text is not a manifest. */
export function parseManifest(text: string): Manifest | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isManifest<Manifest>(schema)(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export async function describeFile(path: string, schemaVersion?: number): Promise<BackedUpFile> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  const { size: bytes } = await stat(path);
  const sha256 = hash.digest("hex");
  return { bytes, sha256, ...(schemaVersion !== undefined && { schemaVersion }) };
}
