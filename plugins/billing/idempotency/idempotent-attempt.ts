/** One request with an idempotency key: the state of the step `idempotency` for an exchange. */
import {
  refuse,
  type Awaitable,
  type Host,
  type InnerSurface,
  type Reply,
  type ResponseHead,
} from "sluice-gateway/plugin";
import type {
  Idempotency,
  IdempotencySlot,
  IdempotentRequest,
  NotRunReason,
  StoredResponse,
} from "sluice-gateway/services";
import { andThen } from "sluice-gateway/internal/toolkit";

/** Maximum size of a stored response (gateway.md, "Idempotency"). Larger ones are not stored. */
const responseBytes = 1024 * 1024;

const inFlight = refuse("GATEWAY_CONFLICT", {
  message: "a request with this idempotency key is still running",
});
const unavailable = refuse("GATEWAY_SERVICE_UNAVAILABLE");

export class IdempotentAttempt {
  readonly apiKeyId: string;
  readonly key: string;
  /** Hash of method, target and body. Empty until the body has arrived. */
  fingerprint = "";
  readonly #idempotency: Idempotency;
  readonly #mode: Host["mode"];
  #slot: IdempotencySlot | undefined;
  #stream: CapturedStream | undefined;
  /** True if the exchange has ended, perhaps while the slot was being taken. */
  #isOver = false;

  constructor(idempotency: Idempotency, mode: Host["mode"], apiKeyId: string, key: string) {
    this.#idempotency = idempotency;
    this.#mode = mode;
    this.apiKeyId = apiKeyId;
    this.key = key;
  }

  async run(surface: InnerSurface): Promise<Reply | undefined> {
    // In shadow mode this step must not roll back the work of the surface.
    if (surface.atomic && this.#mode === "enforce") return this.#inOneTransaction(surface);
    const taken = await this.#idempotency.take(this.#request);
    if (taken.kind !== "taken") return insteadOf(taken);
    if (this.#isOver) {
      await taken.slot.release();
      return unavailable;
    }
    this.#slot = taken.slot;
    return this.#whileHeld(taken.slot, surface);
  }

  streams(head: ResponseHead): void {
    if (this.#slot !== undefined) this.#stream = new CapturedStream(head);
  }

  keep(chunk: Uint8Array): void {
    this.#stream?.add(chunk);
  }

  /** Called when the whole stream has passed, before its last byte is sent. */
  streamed(): Awaitable<void> {
    const response = this.#stream?.response;
    const slot = this.#slot;
    if (response === undefined || slot === undefined) return;
    this.#slot = undefined;
    return slot.store(response).then(() => {});
  }

  /** Releases the slot if no response was stored. */
  release(): Awaitable<void> {
    this.#isOver = true;
    const slot = this.#slot;
    this.#slot = undefined;
    return slot?.release();
  }

  get #request(): IdempotentRequest {
    return { apiKeyId: this.apiKeyId, key: this.key, fingerprint: this.fingerprint };
  }

  async #inOneTransaction(surface: InnerSurface): Promise<Reply> {
    let reply: Reply = unavailable;
    const end = await this.#idempotency.once(this.#request, () =>
      andThen(surface.answer(), (answer) => {
        if (answer === undefined) throw new Error("an atomic surface must answer with a Reply");
        reply = answer;
        return hasFailed(answer) ? "undo" : (responseOf(answer) ?? "release");
      }),
    );
    return end.kind === "ran" ? reply : insteadOf(end);
  }

  /**
   * Runs a surface whose work is not in the accounts database. The slot is on disk before the work starts, and the
   * response is on disk before it is sent.
   */
  async #whileHeld(slot: IdempotencySlot, surface: InnerSurface): Promise<Reply | undefined> {
    const reply = await surface.answer();
    const response = reply === undefined || hasFailed(reply) ? undefined : responseOf(reply);
    if (response === undefined) return reply;
    this.#slot = undefined;
    await slot.store(response);
    return reply;
  }
}

class CapturedStream {
  readonly #head: Omit<StoredResponse, "body">;
  /** Undefined if the response is too large or has failed. */
  #chunks: Uint8Array[] | undefined = [];
  #bytes = 0;

  constructor(head: ResponseHead) {
    this.#head = {
      status: head.status,
      contentType: head.get("content-type"),
      contentEncoding: head.get("content-encoding"),
    };
    if (head.status >= 500) this.#chunks = undefined;
  }

  add(chunk: Uint8Array): void {
    this.#bytes += chunk.length;
    if (this.#bytes > responseBytes) this.#chunks = undefined;
    // Chunks are borrowed, so they must be copied.
    this.#chunks?.push(Uint8Array.from(chunk));
  }

  get response(): StoredResponse | undefined {
    if (this.#chunks === undefined) return undefined;
    return { ...this.#head, body: Buffer.concat(this.#chunks, this.#bytes) };
  }
}

/**
 * Returns true for a 5xx, which releases the slot (decisions.md section 11), and for a reply that replaces the missing
 * answer of an upstream.
 */
function hasFailed({ status, outcome }: Reply): boolean {
  return status >= 500 || outcome !== undefined;
}

function responseOf(reply: Reply): StoredResponse | undefined {
  const { status, headers = [], body = "", pieces = [] } = reply;
  const whole = typeof body === "string" ? Buffer.from(body) : body;
  const parts: readonly Uint8Array[] = reply.body === undefined ? pieces : [whole];
  if (parts.reduce((sum, { length }) => sum + length, 0) > responseBytes) return undefined;
  const field = (wanted: string): string | undefined => {
    const at = headers.findIndex((name, i) => i % 2 === 0 && name.toLowerCase() === wanted);
    return at === -1 ? undefined : headers[at + 1];
  };
  const contentType = field("content-type");
  return {
    status,
    contentType,
    contentEncoding: field("content-encoding"),
    body: Buffer.concat(parts),
  };
}

function insteadOf(found: NotRunReason): Reply {
  if (found.kind === "replay") {
    const { status, contentType, contentEncoding, body } = found.response;
    const headers = ["idempotent-replayed", "true"];
    if (contentType !== undefined) headers.push("content-type", contentType);
    // Without this header the client would misread the stored bytes.
    if (contentEncoding !== undefined) headers.push("content-encoding", contentEncoding);
    return { status, headers, body };
  }
  if (found.kind === "mismatch") return refuse("GATEWAY_IDEMPOTENCY_KEY_MISMATCH");
  return found.kind === "inFlight" ? inFlight : unavailable;
}
