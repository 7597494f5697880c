/** The part of an API for models that differs from the others: how it reads requests and renders answers. */
import type { ChildSpan, Clock, Exchange, Reply } from "sluice-gateway/plugin";
import type { Charge, InferenceResult, PromptOptions, WholeMessage } from "sluice-gateway/services";
import type { SessionHints } from "../session-key.ts";
import type { Json } from "./check.ts";
import type { CompletionError } from "./errors.ts";
import type { NativeApi } from "./native-request.ts";
import type { CompletionRequest } from "./request.ts";

export interface CompletionApi {
  /** The method in charges, such as `chat.completions`. */
  readonly method: string;
  readonly idPrefix: string;
  /** Undefined if its requests are always translated. */
  readonly native?: NativeApi;
  /** `options`: those of the network that serves the model; undefined if there is none. Throws `InvalidRequest`. */
  read(body: Json, options: PromptOptions | undefined, x: Exchange): ReadCompletion;
  /** Returns headers in addition to `content-type` and `retry-after`. */
  renderError(error: CompletionError, x: Exchange): Pick<Reply, "headers"> & { body: string };
}

export interface ReadCompletion {
  readonly request: CompletionRequest;
  readonly session: SessionHints | undefined;
  readonly renderer: AnswerRenderer;
}

/** A request without the body for the worker. */
export interface AcceptedRequest extends Omit<CompletionRequest, "body"> {
  /** Undefined if the network does not use sessions. */
  readonly session: string | undefined;
}

export interface AcceptedCompletion {
  readonly x: Exchange;
  readonly api: CompletionApi;
  readonly renderer: AnswerRenderer;
  readonly request: AcceptedRequest;
  readonly clock: Clock;
}

export interface Completion extends AcceptedCompletion {
  readonly charge: Charge;
  readonly id: string;
  readonly span: ChildSpan | undefined;
  /** Unix seconds. */
  readonly created: number;
  /** Monotonic time in milliseconds. */
  readonly startedAt: number;
  /** Milliseconds from `startedAt` to the first piece of a streamed answer. */
  firstTokenMs: number | undefined;
  /** Set if the stream broke after its head was sent. */
  brokenBy: string | undefined;
}

export interface AnswerRenderer {
  /** Headers in addition to those of the content: a flat list. */
  readonly headers?: readonly string[];
  whole(completion: Completion, message: WholeMessage | undefined, charged: Charged): string;
  /** Returns the answer to a request that names an API of workers, in pieces. `native`: as in `AnswerReader`. */
  native?(completion: Completion, native: Buffer, charged: Charged): readonly Uint8Array[];
  /** The renderer gets events instead of choices if the request names an API of workers. */
  stream(completion: Completion): StreamRenderer;
}

export interface Charged {
  readonly result: InferenceResult;
  readonly usedMilliCu: number;
}

/**
 * Renders a streamed answer as server-sent events. Its methods are called from the sockets of workers. They must not
 * throw, whatever a worker sends, and may keep at most what fits into the token limit of the answer.
 */
export interface StreamRenderer {
  /** `latin1` is one character per byte of UTF-8, which is the cheapest way to pass bytes on. */
  readonly encoding: "latin1" | "utf8";
  /** Returns the events for a choice or an event of a worker, as in `AnswerReader.onChoice`. */
  choice(bytes: Buffer, start: number, end: number): string;
  end(charged: Charged, native?: Buffer): string;
  /** Returns the last events of an answer that broke. They must not look like the end of a complete one. */
  failed(error: CompletionError, charged: Charged): string;
}
