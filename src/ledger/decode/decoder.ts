/** The service that plugins call `Decoder`: asks the node, finds the runtime, decodes here or in a thread. */
import type { ComputePool } from "../../compute/pool.ts";
import type {
  CallSummary,
  Clock,
  DecodedJson,
  DecodeFailure,
  Decoder,
  Ledger,
} from "../../services.ts";
import { accountJson, accountKey } from "./account.ts";
import { ask, isHash, parsed } from "./ask.ts";
import { splitBlock } from "./block.ts";
import { decodeText, type DecodeJob, type JobKind } from "./job.ts";
import { failureOf, Runtimes, type Found, type LoadedRuntime } from "./runtimes.ts";
import { accountIdOf } from "./ss58.ts";
import { storagePrefix } from "./storage-key.ts";
import { summarise } from "./summary.ts";

/**
 * From this size of the node's JSON on, handing it to a thread costs the event loop less than decoding it here: measured by
 * bench/micro/decode.ts, where both meet at about 256 KiB, some 0.5 ms.
 */
const poolFromBytes = 256 * 1024;

const jobModule = new URL(
  import.meta.url.endsWith(".ts") ? "./job.ts" : "./job.js",
  import.meta.url,
).href;
const eventsKey = `0x${storagePrefix("System", "Events").toString("hex")}`;

interface DecoderParts {
  readonly ledger: Ledger;
  readonly compute: ComputePool;
  readonly clock: Clock;
}

type Options = { readonly signal?: AbortSignal | undefined } | undefined;
type Summary = { readonly ok: true; readonly summary: CallSummary } | DecodeFailure;

const undecodable: DecodeFailure = { ok: false, reason: "undecodable" };

/** Owns nothing: the ledger and the pool are closed by whoever opened them. */
export function createDecoder({ ledger, compute, clock }: DecoderParts): Decoder {
  const runtimes = new Runtimes(ledger, clock);

  const decodeWith = async (
    { id, metadata, runtime }: LoadedRuntime,
    kind: JobKind,
    body: Buffer,
    signal: AbortSignal | undefined,
  ): Promise<DecodedJson> => {
    if (body.length < poolFromBytes) {
      const json = runtime && decodeText(runtime, kind, body.toString("latin1"));
      return json === undefined ? undecodable : { ok: true, json };
    }
    // A copy: what the ledger gave is borrowed, and this is moved away.
    const moved = new Uint8Array(body);
    const input: DecodeJob = { kind, runtime: id, metadata, body: moved };
    const done = await compute.run({ module: jobModule, input, transfer: [moved.buffer], signal });
    if (!done.ok)
      return { ok: false, reason: done.reason === "crashed" ? "undecodable" : done.reason };
    if (done.bytes === undefined) return undecodable;
    const { buffer, byteOffset, byteLength } = done.bytes;
    return { ok: true, json: Buffer.from(buffer, byteOffset, byteLength).toString("latin1") };
  };

  /** Once more with fresh metadata where it did not fit. */
  const decode = async (
    found: Found,
    kind: JobKind,
    body: Buffer,
    signal: AbortSignal | undefined,
  ): Promise<DecodedJson> => {
    if (!found.ok) return found;
    const first = await decodeWith(found.loaded, kind, body, signal);
    if (first.ok || first.reason !== "undecodable") return first;
    const fresh = await runtimes.again(found);
    return fresh === undefined ? first : decodeWith(fresh, kind, body, signal);
  };

  /** The block of a read without one: every question that follows is about the same state. */
  const bestBlock = async (signal?: AbortSignal): Promise<string | DecodeFailure> => {
    const asked = await ask(ledger, "chain_getBlockHash", "[]", signal);
    if (asked.kind !== "value") return { ok: false, reason: failureAt(asked) };
    const hash = parsed(asked.bytes);
    return isHash(hash) ? hash : { ok: false, reason: "unreachable" };
  };

  return {
    async extrinsics(block, blockHash, options: Options): Promise<DecodedJson> {
      const split = splitBlock(block);
      if (split === undefined) return undecodable;
      runtimes.rememberParent(blockHash, split.parentHash);
      const found = await runtimes.of(blockHash, options?.signal);
      return decode(found, "extrinsics", split.extrinsics, options?.signal);
    },

    async events(blockHash, options: Options): Promise<DecodedJson> {
      const signal = options?.signal;
      const [found, stored] = await Promise.all([
        runtimes.of(blockHash, signal),
        ask(ledger, "state_getStorage", `["${eventsKey}","${blockHash}"]`, signal),
      ]);
      if (!found.ok) return found;
      const body = storedBytes(stored);
      return "reason" in body ? body : decode(found, "events", body, signal);
    },

    async account(accountId, blockHash, options: Options): Promise<DecodedJson> {
      const signal = options?.signal;
      const hash = blockHash ?? (await bestBlock(signal));
      if (typeof hash !== "string") return hash;
      const found = await runtimes.of(hash, signal);
      if (!found.ok) return found;
      const { runtime } = found.loaded;
      const key = runtime && accountKey(runtime, accountId);
      if (runtime === undefined) return undecodable;
      if (key === undefined) return { ok: false, reason: "wrongAccount" };
      const stored =
        key === null
          ? undefined
          : await ask(ledger, "state_getStorage", `["${key}","${hash}"]`, signal);
      const body = stored === undefined ? nothing : storedBytes(stored);
      if ("reason" in body) return body;
      const json = accountJson(runtime, hexOf(body));
      return json === undefined ? undecodable : { ok: true, json };
    },

    accountId: accountIdOf,

    async summary(extrinsic, options: Options): Promise<Summary> {
      const hash = await bestBlock(options?.signal);
      if (typeof hash !== "string") return hash;
      const found = await runtimes.at(hash, options?.signal);
      if (!found.ok) return found;
      const bytes = Buffer.from(extrinsic.buffer, extrinsic.byteOffset, extrinsic.byteLength);
      const { runtime } = found.loaded;
      const summary = runtime && summarise(runtime, bytes);
      return summary === undefined ? undecodable : { ok: true, summary };
    },
  };
}

const nothing = Buffer.from("null");

/** The JSON of a storage value; an error of the node's means that it does not have that state. */
function storedBytes(asked: Awaited<ReturnType<typeof ask>>): Buffer | DecodeFailure {
  if (asked.kind === "value") return asked.bytes;
  return asked.kind === "none" && !asked.error ? nothing : failureOf(asked);
}

/** Of a JSON string or null. */
function hexOf(json: Buffer): string | undefined {
  return json === nothing ? undefined : json.toString("latin1", 1, json.length - 1);
}

function failureAt(asked: Parameters<typeof failureOf>[0]): DecodeFailure["reason"] {
  return asked.kind === "failed" ? asked.reason : "unreachable";
}
