/** A verified session: requests one after the other, until it is closed, breaks or its time is over. */
import type { Role } from "../protocol/hello.ts";
import { toBase64Url, utf8 } from "../protocol/layout.ts";
import { maxRequestBytes, maxRequests, maxSessionMs } from "../protocol/limits.ts";
import { isCount } from "../protocol/strict-json.ts";
import type { Bytes } from "../verify/binary-text.ts";
import type { Assurance, Check, VerificationReport } from "../verify/report.ts";
import type { Answer, ChatRequest, FinalAnswer } from "./answer.ts";
import { createDeltas } from "./deltas.ts";
import { runExchange } from "./exchange.ts";
import type { Turn } from "./exchange.ts";
import { closeCodeOf, ConfidentialError } from "./failure.ts";
import type { OpenSession } from "./attempt.ts";
import type { Settings } from "./options.ts";

export interface Session {
  /** base64url of 16 bytes: names it in receipts. */
  readonly id: string;
  readonly network: string;
  readonly model: string;
  /** Where the encryption ends: at the worker beside the model, or at the gateway's own enclave. */
  readonly termination: Role;
  /** The same, as the keyset says that the evidence binds. */
  readonly role: Role;
  /** Who vouches for the evidence; `simulated` is nobody. */
  readonly assurance: Assurance;
  readonly evidence: VerificationReport;
  /** Of the handshake and the evidence, in their order. */
  readonly checks: readonly Check[];
  /** `sha256:<hex>` */
  readonly keyset: string;
  /** `sha256:<hex>` of the evidence of what stands behind a gateway's enclave. */
  readonly upstream: string | undefined;
  /** The gateway's price as it was offered; not signed. Parsed JSON. */
  readonly offer: unknown;
  /** Milliseconds since 1970: no request begins afterwards. */
  readonly expiresAt: number;
  /**
   * Requests wait for the one before. `signal` cancels: the reader gets its reason, `final` still the bill. Throws
   * TypeError for what cannot be sent.
   */
  chat(request: ChatRequest, options?: { readonly signal?: AbortSignal }): Answer;
  /**
   * Ends requests under way with CONNECTION_CLOSED. Resolves when the connection is gone, or after 5 s if the gateway does
   * not answer the closing handshake.
   */
  close(): Promise<void>;
}

/** How long a gateway may take to answer the closing handshake. */
const closeMs = 5_000;

export function createSession(open: OpenSession, settings: Settings): Session {
  const { attested, hello, socket, evidence, checks, offer } = open;
  const { core, keyset, keysetDigest } = attested;
  const { clock } = settings;
  const expiresAt = Math.min(keyset.notAfter * 1000, clock.now() + maxSessionMs);
  let previous: Promise<unknown> = Promise.resolve();
  let failure: ConfidentialError | undefined;

  async function run(
    request: Bytes,
    turn: Turn,
    signal: AbortSignal | undefined,
  ): Promise<FinalAnswer> {
    signal?.throwIfAborted();
    if (turn.isCancelled) throw new ConfidentialError("CONNECTION_CLOSED", "left before it began");
    const unfit = failure ?? unfitness();
    if (unfit !== undefined) throw unfit;
    try {
      return await runExchange(open, settings, request, turn);
    } catch (error) {
      throw breakOff(error);
    }
  }

  function unfitness(): ConfidentialError | undefined {
    if (clock.now() >= expiresAt)
      return new ConfidentialError("TIMEOUT", "the session's time is over");
    return open.channel.watch.rid() < maxRequests
      ? undefined
      : new ConfidentialError("LIMIT_EXCEEDED", "the session has had its requests");
  }

  /** Nothing follows under keys that something was wrong with. */
  function breakOff(error: unknown): unknown {
    if (!(error instanceof ConfidentialError)) {
      failure ??= new ConfidentialError("CONNECTION_CLOSED", "the session broke");
      socket.close(closeCodeOf("CONNECTION_CLOSED"));
      return error;
    }
    socket.close(closeCodeOf(error.code));
    failure ??= error;
    return failure;
  }

  return {
    id: toBase64Url(core.session),
    network: hello.network,
    model: hello.model,
    termination: hello.termination,
    role: keyset.role,
    assurance: evidence.assurance,
    evidence,
    checks,
    keyset: keysetDigest,
    upstream: core.upstream,
    offer,
    expiresAt,
    chat(request, { signal } = {}) {
      const bytes = writeRequest(request, hello.model, hello.maxOutputTokens);
      const { answer, turn, settle } = startAnswer(signal);
      const final = previous.then(() => run(bytes, turn, signal));
      previous = final.catch(() => undefined);
      settle(final);
      return answer;
    },
    async close() {
      failure ??= new ConfidentialError("CONNECTION_CLOSED", "the session was closed");
      socket.close(closeCodeOf("CONNECTION_CLOSED"));
      const { promise: late, resolve } = Promise.withResolvers<void>();
      const stop = clock.after(closeMs, resolve);
      await Promise.race([socket.closed, late]);
      stop();
    },
  };
}

interface StartedAnswer {
  readonly answer: Answer;
  readonly turn: Turn;
  /** Ties the deltas' end to the bill's. */
  readonly settle: (final: Promise<FinalAnswer>) => void;
}

function startAnswer(signal: AbortSignal | undefined): StartedAnswer {
  const cancel = (): void => {
    if (turn.isCancelled) return;
    turn.isCancelled = true;
    // A connection that is gone has told its reader.
    turn.tellCancelled?.().catch(() => undefined);
  };
  const deltas = createDeltas(cancel);
  const turn: Turn = { deltas, isCancelled: false, tellCancelled: undefined };
  const abort = (): void => {
    deltas.fail(signal?.reason);
    cancel();
  };
  if (signal?.aborted === true) abort();
  else signal?.addEventListener("abort", abort, { once: true });
  const { promise, resolve, reject } = Promise.withResolvers<FinalAnswer>();
  // Who reads the deltas alone hears of it there.
  promise.catch(() => undefined);
  const answer: Answer = {
    final: promise,
    [Symbol.asyncIterator]: () => deltas[Symbol.asyncIterator](),
  };
  return {
    answer,
    turn,
    settle(final) {
      const forget = (): void => signal?.removeEventListener("abort", abort);
      final.then(
        (told) => {
          forget();
          if (told.error === undefined) deltas.end();
          else deltas.fail(new ConfidentialError("REQUEST_FAILED", told.error));
          resolve(told);
        },
        (error: unknown) => {
          forget();
          deltas.fail(error);
          reject(error);
        },
      );
    },
  };
}

function writeRequest(request: ChatRequest, model: string, maxOutputTokens: number): Bytes {
  const { messages, max_tokens: maxTokens } = request;
  if (!Array.isArray(messages)) throw new TypeError("messages must be an array");
  if (maxTokens !== undefined && (!isCount(maxTokens) || maxTokens > maxOutputTokens)) {
    throw new TypeError(`max_tokens must be a whole number up to ${maxOutputTokens}`);
  }
  const bytes = utf8(JSON.stringify({ ...request, model, stream: true }));
  if (bytes.length > maxRequestBytes) throw new TypeError("the request is too long");
  return bytes;
}
