/**
 * Decoding as a job: bytes of a node in, finished JSON out, the same on the event loop and in a thread. This module is
 * what the compute pool loads; its threads keep the runtimes that they have parsed.
 */
import { movedOut } from "../../../../src/compute/pool.ts";
import { eventsJson } from "./events.ts";
import { extrinsicsJson } from "./extrinsics.ts";
import { createRuntime, type Runtime } from "./runtime.ts";

export type JobKind = "extrinsics" | "events";

export interface DecodeJob {
  readonly kind: JobKind;
  /** Names the runtime within this process. */
  readonly runtime: number;
  /** Its metadata, in memory that all threads see: read by each of them once. */
  readonly metadata: SharedArrayBuffer;
  /** The node's JSON: an array of hex strings, or one hex string or null. */
  readonly body: Uint8Array;
}

/** As many as the event loop keeps: see runtimes.ts. */
const keptRuntimes = 8;
const runtimes = new Map<number, Runtime | undefined>();

/** Runs in a thread of the pool. Undefined: undecodable. */
export default function decode(job: DecodeJob): unknown {
  const runtime = runtimeOf(job);
  const { buffer, byteOffset, byteLength } = job.body;
  const text = Buffer.from(buffer, byteOffset, byteLength).toString("latin1");
  const json = runtime === undefined ? undefined : decodeText(runtime, job.kind, text);
  if (json === undefined) return undefined;
  // Not from Node's shared pool of small buffers, which cannot be moved.
  const bytes = new Uint8Array(json.length);
  Buffer.from(bytes.buffer).write(json, "latin1");
  return movedOut(bytes);
}

/** `text`: JSON of the node, one character a byte. The answer is ASCII. Undefined: undecodable. */
export function decodeText(runtime: Runtime, kind: JobKind, text: string): string | undefined {
  if (kind === "extrinsics") return extrinsicsJson(runtime, text);
  return eventsJson(runtime, text === "null" ? undefined : text.slice(1, -1));
}

function runtimeOf({ runtime, metadata }: DecodeJob): Runtime | undefined {
  if (!runtimes.has(runtime)) {
    const [oldest] = runtimes.keys();
    if (runtimes.size >= keptRuntimes && oldest !== undefined) runtimes.delete(oldest);
    runtimes.set(runtime, createRuntime(Buffer.from(metadata)));
  }
  return runtimes.get(runtime);
}
