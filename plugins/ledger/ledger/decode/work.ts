/** Where decoding happens: here or in a thread, and once more where the runtime may have been the wrong one. */
import type { ComputeThreads } from "../../../../src/services/compute.ts";
import type { DecodedJson, DecodeFailure } from "../../../../src/services/decoder.ts";
import { unknownCall } from "./extrinsics.ts";
import { decodeText, type DecodeJob, type JobKind } from "./job.ts";
import type { Found, LoadedRuntime, Runtimes } from "./runtimes.ts";

/**
 * From this size of the node's JSON on, handing it to a thread costs the event loop less than decoding it here:
 * measured by bench/micro/decode.ts, where both meet at about 256 KiB, some 0.7 ms.
 */
const poolFromBytes = 256 * 1024;

const jobModule = new URL(
  import.meta.url.endsWith(".ts") ? "./job.ts" : "./job.js",
  import.meta.url,
).href;

export const undecodable: DecodeFailure = { ok: false, reason: "undecodable" };

/** Decodes what a node said, borrowed. */
export class Work {
  readonly #compute: ComputeThreads;
  readonly #runtimes: Runtimes;

  constructor(compute: ComputeThreads, runtimes: Runtimes) {
    this.#compute = compute;
    this.#runtimes = runtimes;
  }

  async decode(
    found: Found,
    kind: JobKind,
    body: Buffer,
    signal: AbortSignal | undefined,
  ): Promise<DecodedJson> {
    if (!found.ok) return found;
    const first = await this.#decodeWith(found.loaded, kind, body, signal);
    if (!isDoubtful(first)) return first;
    const fresh = await this.#runtimes.again(found);
    return fresh === undefined ? first : this.#decodeWith(fresh, kind, body, signal);
  }

  async #decodeWith(
    loaded: LoadedRuntime,
    kind: JobKind,
    body: Buffer,
    signal: AbortSignal | undefined,
  ): Promise<DecodedJson> {
    if (body.length < poolFromBytes) {
      const { runtime } = loaded;
      const json = runtime && decodeText(runtime, kind, body.toString("latin1"));
      return json === undefined ? undecodable : { ok: true, json };
    }
    // A copy, for this is moved away.
    const moved = new Uint8Array(body);
    const { id, metadata } = loaded;
    const input: DecodeJob = { kind, runtime: id, metadata, body: moved };
    const transfer = [moved.buffer];
    const done = await this.#compute.run({ module: jobModule, input, transfer, signal });
    if (!done.ok)
      return done.reason === "crashed" ? undecodable : { ok: false, reason: done.reason };
    if (done.bytes === undefined) return undecodable;
    const { buffer, byteOffset, byteLength } = done.bytes;
    return { ok: true, json: Buffer.from(buffer, byteOffset, byteLength).toString("latin1") };
  }
}

/** Whether another runtime might have read more. */
function isDoubtful(said: DecodedJson): boolean {
  return said.ok ? said.json.includes(unknownCall) : said.reason === "undecodable";
}
