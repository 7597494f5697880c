import type { Role } from "../protocol/hello.ts";
import { toBase64Url, utf8 } from "../protocol/encoding.ts";
import { maxRequestBytes, maxRequests, maxSessionMs } from "../protocol/limits.ts";
import { isCount } from "../protocol/strict-json.ts";
import type { Bytes } from "../verify/binary-text.ts";
import type { Assurance, Check, VerificationReport } from "../verify/report.ts";
import type { Answer, ChatRequest, FinalAnswer } from "./answer.ts";
import { createDeltaQueue } from "./delta-queue.ts";
import { runExchange, type ActiveRequest } from "./exchange.ts";
import { closeCodeOf, ConfidentialError } from "./failure.ts";
import type { OpenSession } from "./handshake-attempt.ts";
import type { Settings } from "./options.ts";

/** A verified, encrypted session. It runs requests one after the other until it is closed, fails or expires. */
export interface Session {
  /** Session id as used in receipts: base64url of 16 bytes. */
  readonly id: string;
  readonly network: string;
  readonly model: string;
  /** The place where the encryption ends: `worker` (next to the model) or `gateway` (in the gateway's own enclave). */
  readonly termination: Role;
  /** The role in the keyset, which the evidence binds. Equal to `termination`. */
  readonly role: Role;
  /** The kind of hardware that attests the enclave. `simulated` means that no hardware does. */
  readonly assurance: Assurance;
  /** The result of the verification of the evidence. */
  readonly evidence: VerificationReport;
  /** The checks of the handshake and the evidence, in order. */
  readonly checks: readonly Check[];
  /** Digest of the enclave's keyset: `sha256:<hex>`. */
  readonly keyset: string;
  /**
   * Digest of the evidence of the upstream that the gateway's enclave uses: `sha256:<hex>`. Undefined if there is none.
   */
  readonly upstream: string | undefined;
  /** The gateway's price offer as parsed JSON. It is not signed. */
  readonly offer: unknown;
  /** Time after which no request can start, in milliseconds since 1970. */
  readonly expiresAt: number;
  /** True while a request can start: the session is open, and none of its limits has been reached. */
  readonly isOpen: boolean;
  /**
   * Sends a request. It starts when the previous one has ended. `signal`: cancels the request; the loop over the deltas
   * then throws the signal's reason, and `final` still resolves with the cost. Throws a TypeError if the request is
   * invalid.
   */
  chat(request: ChatRequest, options?: { readonly signal?: AbortSignal }): Answer;
  /**
   * Closes the session. Running requests fail with CONNECTION_CLOSED. Resolves when the connection is closed, or after
   * 5 s if the gateway does not answer the closing handshake.
   */
  close(): Promise<void>;
}

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
    active: ActiveRequest,
    signal: AbortSignal | undefined,
  ): Promise<FinalAnswer> {
    signal?.throwIfAborted();
    if (active.isCancelled)
      throw new ConfidentialError(
        "CONNECTION_CLOSED",
        "the request was cancelled before it started",
      );
    const refusal = failure ?? limitReached();
    if (refusal !== undefined) throw refusal;
    try {
      return await runExchange(open, settings, request, active);
    } catch (error) {
      throw failSession(error);
    }
  }

  function limitReached(): ConfidentialError | undefined {
    if (clock.now() >= expiresAt)
      return new ConfidentialError("TIMEOUT", "the session has expired");
    return open.channel.watch.rid() < maxRequests
      ? undefined
      : new ConfidentialError("LIMIT_EXCEEDED", `the session has had ${maxRequests} requests`);
  }

  /** After a failure the keys of the session are not used again. Returns the error to throw. */
  function failSession(error: unknown): unknown {
    if (!(error instanceof ConfidentialError)) {
      failure ??= new ConfidentialError("CONNECTION_CLOSED", "the session failed");
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
    get isOpen() {
      return socket.isOpen && (failure ?? limitReached()) === undefined;
    },
    chat(request, { signal } = {}) {
      const bytes = writeRequest(request, hello.model, hello.maxOutputTokens);
      const { answer, active, settle } = startAnswer(signal);
      const final = previous.then(() => run(bytes, active, signal));
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
  readonly active: ActiveRequest;
  readonly settle: (final: Promise<FinalAnswer>) => void;
}

function startAnswer(signal: AbortSignal | undefined): StartedAnswer {
  const cancel = (): void => {
    if (active.isCancelled) return;
    active.isCancelled = true;
    // If the connection is closed, the reader has already received that error.
    active.sendCancel?.().catch(() => undefined);
  };
  const deltas = createDeltaQueue(cancel);
  const active: ActiveRequest = { deltas, isCancelled: false, sendCancel: undefined };
  const abort = (): void => {
    deltas.fail(signal?.reason);
    cancel();
  };
  if (signal?.aborted === true) abort();
  else signal?.addEventListener("abort", abort, { once: true });
  const { promise, resolve, reject } = Promise.withResolvers<FinalAnswer>();
  // A caller that reads only the deltas receives the error there.
  promise.catch(() => undefined);
  const answer: Answer = {
    final: promise,
    [Symbol.asyncIterator]: () => deltas[Symbol.asyncIterator](),
  };
  return {
    answer,
    active,
    settle(final) {
      const forget = (): void => signal?.removeEventListener("abort", abort);
      final.then(
        (result) => {
          forget();
          if (result.error === undefined) deltas.end();
          else deltas.fail(new ConfidentialError("REQUEST_FAILED", result.error));
          resolve(result);
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
    throw new TypeError(`max_tokens must be a whole number, ${maxOutputTokens} or less`);
  }
  const bytes = utf8(JSON.stringify({ ...request, model, stream: true }));
  if (bytes.length > maxRequestBytes) {
    throw new TypeError(`the request has ${bytes.length} bytes, more than ${maxRequestBytes}`);
  }
  return bytes;
}
