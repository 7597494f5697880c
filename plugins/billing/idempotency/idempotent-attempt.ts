/** One request under an idempotency key: what the slot `idempotency` holds. */
import {
  refuse,
  type Host,
  type IdempotencySlot,
  type IdempotentRequest,
  type NotRun,
  type Reply,
  type ResponseHead,
  type StoredResponse,
  type Surrounded,
} from "sluice-gateway/plugin";

/** gateway.md, "Idempotency": a larger response is not kept. */
const responseBytes = 1024 * 1024;

const inFlight = refuse("GATEWAY_CONFLICT", {
  message: "a request with this idempotency key is still running",
});
const mismatch = refuse("GATEWAY_IDEMPOTENCY_KEY_MISMATCH");
const unavailable = refuse("GATEWAY_SERVICE_UNAVAILABLE");

export class IdempotentAttempt {
  readonly apiKeyId: string;
  readonly key: string;
  /** Of method, target and body, once the body is there. */
  fingerprint = "";
  readonly #host: Host;
  /** While this request holds it. */
  #slot: IdempotencySlot | undefined;
  #stream: CapturedStream | undefined;

  constructor(host: Host, apiKeyId: string, key: string) {
    this.#host = host;
    this.apiKeyId = apiKeyId;
    this.key = key;
  }

  /** Asks the surface, or answers in its place. */
  run(surface: Surrounded): Reply | undefined | Promise<Reply | undefined> {
    // In shadow mode nothing of the step's own may undo what the surface does.
    if (surface.atomic && this.#host.mode === "enforce") return this.#inOneTransaction(surface);
    const taken = this.#host.idempotency.take(this.#request);
    if (taken.kind !== "taken") return insteadOf(taken);
    this.#slot = taken.slot;
    return this.#whileHeld(taken.slot, surface);
  }

  /** The surface streams: what passes from here on is its response. */
  streams(head: ResponseHead): void {
    if (this.#slot !== undefined) this.#stream = new CapturedStream(head);
  }

  keep(chunk: Uint8Array): void {
    this.#stream?.add(chunk);
  }

  /** All of the stream has passed, and its last byte has not left. */
  streamed(): void {
    const response = this.#stream?.response;
    if (response === undefined || this.#slot === undefined) return;
    this.#slot.store(response);
    this.#slot = undefined;
  }

  /** Gives the slot back where no response was kept. */
  release(): void {
    this.#slot?.release();
    this.#slot = undefined;
  }

  get #request(): IdempotentRequest {
    return { apiKeyId: this.apiKeyId, key: this.key, fingerprint: this.fingerprint };
  }

  #inOneTransaction(surface: Surrounded): Reply {
    let reply = unavailable;
    const ended = this.#host.idempotency.once(this.#request, () => {
      const answer = surface.answer();
      if (answer === undefined || answer instanceof Promise) {
        throw new Error("an atomic surface must answer with a Reply, at once");
      }
      reply = answer;
      return hasFailed(answer) ? "undo" : (responseOf(answer) ?? "release");
    });
    return ended.kind === "ran" ? reply : insteadOf(ended);
  }

  /** What the surface does lies elsewhere: the slot is on disk before it begins, the response before it leaves. */
  async #whileHeld(slot: IdempotencySlot, surface: Surrounded): Promise<Reply | undefined> {
    const reply = await surface.answer();
    const response = reply === undefined || hasFailed(reply) ? undefined : responseOf(reply);
    if (response === undefined) return reply;
    slot.store(response);
    this.#slot = undefined;
    return reply;
  }
}

/** A response that is copied while it passes. */
class CapturedStream {
  readonly #head: Omit<StoredResponse, "body">;
  /** Undefined: it is too large, or has failed. */
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
    // Chunks are borrowed.
    this.#chunks?.push(Uint8Array.from(chunk));
  }

  get response(): StoredResponse | undefined {
    if (this.#chunks === undefined) return undefined;
    return { ...this.#head, body: Buffer.concat(this.#chunks, this.#bytes) };
  }
}

/** decisions.md section 11: a 5xx releases the slot. So does what stands in for an upstream's missing answer. */
function hasFailed({ status, outcome }: Reply): boolean {
  return status >= 500 || outcome !== undefined;
}

/** What is kept of a reply; undefined: it is too large. */
function responseOf({ status, headers = [], body = "" }: Reply): StoredResponse | undefined {
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  if (bytes.length > responseBytes) return undefined;
  const field = (wanted: string): string | undefined => {
    const at = headers.findIndex((name, i) => i % 2 === 0 && name.toLowerCase() === wanted);
    return at === -1 ? undefined : headers[at + 1];
  };
  const contentType = field("content-type");
  return { status, contentType, contentEncoding: field("content-encoding"), body: bytes };
}

function insteadOf(found: NotRun): Reply {
  if (found.kind === "replay") {
    const { status, contentType, contentEncoding, body } = found.response;
    const headers = ["idempotent-replayed", "true"];
    if (contentType !== undefined) headers.push("content-type", contentType);
    // Without it the stored bytes would be taken for something else.
    if (contentEncoding !== undefined) headers.push("content-encoding", contentEncoding);
    return { status, headers, body };
  }
  return { inFlight, mismatch, unavailable }[found.kind];
}
