/**
 * Converts the bytes of a node to JSON, on the event loop or in a thread of the compute pool. Each thread caches the
 * runtimes that it has parsed.
 */
import { BoundedMap } from "sluice-gateway/internal/toolkit";
import { eventsJson, extrinsicsJson } from "./block-parts.ts";
import { createRuntime, type Runtime } from "./runtime.ts";

export type JobKind = "extrinsics" | "events";

export interface DecodeJob {
  readonly kind: JobKind;
  /** Identifies the runtime within this process. */
  readonly runtime: number;
  /** Metadata of the runtime, in shared memory. Each thread parses it once. */
  readonly metadata: SharedArrayBuffer;
  /** JSON from the node: an array of hex strings, one hex string, or null. */
  readonly body: Uint8Array;
}

/** The same number as on the event loop: see runtimes.ts. */
const maxRuntimes = 8;
const runtimes = new BoundedMap<number, Runtime | undefined>(maxRuntimes);

/** Runs in a thread of the pool. Returns undefined if the body is undecodable. */
export default function decode(job: DecodeJob): Uint8Array | undefined {
  const runtime = runtimeOf(job);
  const { buffer, byteOffset, byteLength } = job.body;
  const text = Buffer.from(buffer, byteOffset, byteLength).toString("latin1");
  const json = runtime === undefined ? undefined : decodeText(runtime, job.kind, text);
  return json === undefined ? undefined : Buffer.from(json, "latin1");
}

/** Returns ASCII text. `text`: JSON from the node, one character per byte. Undefined if it is undecodable. */
export function decodeText(runtime: Runtime, kind: JobKind, text: string): string | undefined {
  if (kind === "extrinsics") return extrinsicsJson(runtime, text);
  return eventsJson(runtime, text === "null" ? undefined : text.slice(1, -1));
}

function runtimeOf({ runtime, metadata }: DecodeJob): Runtime | undefined {
  if (!runtimes.has(runtime)) runtimes.set(runtime, createRuntime(Buffer.from(metadata)));
  return runtimes.get(runtime);
}
