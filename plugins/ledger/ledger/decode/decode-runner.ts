/** Runs decoding on the event loop or in a thread, and repeats it if the runtime may have been the wrong one. */
import { threadModule } from "sluice-gateway/internal/package-files";
import type { ComputeThreads } from "sluice-gateway/plugin";
import type { DecodedJson, DecodeFailure } from "sluice-gateway/services";
import { unknownCall } from "./extrinsics.ts";
import { decodeText, type DecodeJob, type JobKind } from "./decode-job.ts";
import type { FoundRuntime, LoadedRuntime, Runtimes } from "./runtimes.ts";

/**
 * Minimum size of the node's JSON for which a thread is used. Passing a larger text to a thread costs the event loop
 * less than decoding it. According to bench/micro/decode.ts, both cost about 0.7 ms at 256 KiB.
 */
const poolFromBytes = 256 * 1024;

const jobModule = threadModule("plugins/ledger/ledger/decode/decode-job");

export const undecodable: DecodeFailure = { ok: false, reason: "undecodable" };

/** Decodes answers of a node, which are borrowed. */
export class DecodeRunner {
  readonly #compute: ComputeThreads;
  readonly #runtimes: Runtimes;

  constructor(compute: ComputeThreads, runtimes: Runtimes) {
    this.#compute = compute;
    this.#runtimes = runtimes;
  }

  async decode(
    found: FoundRuntime,
    kind: JobKind,
    body: Buffer,
    signal: AbortSignal | undefined,
  ): Promise<DecodedJson> {
    if (!found.ok) return found;
    const first = await this.#decodeWith(found.loaded, kind, body, signal);
    if (!mightDecodeMore(first)) return first;
    const fresh = await this.#runtimes.refetch(found);
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
    // A copy, because its memory is transferred to the thread.
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

function mightDecodeMore(decoded: DecodedJson): boolean {
  return decoded.ok ? decoded.json.includes(unknownCall) : decoded.reason === "undecodable";
}
