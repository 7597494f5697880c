/** The slot `trace` of the step of that name: the spans of one exchange. Not set while nothing is exported. */

/**
 * Attributes by their names in OpenTelemetry's semantic conventions; undefined is left out. What a client wrote is
 * bounded before it gets here, and nothing secret does: no prompt, no header, no input of a tool.
 */
export type SpanAttributes = Readonly<
  Record<string, string | number | boolean | readonly string[] | undefined>
>;

/** The exchange's own span, or one below it. */
export interface TraceSpan {
  /** 32 hex digits: the client's trace if it sent one, else the gateway's own. */
  readonly traceId: string;
  /** 16 hex digits. */
  readonly spanId: string;
  /**
   * What a request made within this span carries, flat name, value …: `traceparent`, and `tracestate` where the client
   * sent one (W3C Trace Context).
   */
  readonly headers: readonly string[];
  set(attributes: SpanAttributes): void;
  /** Begins a span below this one: `client` where it is a request to somebody else. */
  child(name: string, kind: "client" | "internal", attributes?: SpanAttributes): ChildSpan;
  /**
   * This span as a message in its body sees it that names a trace of its own (`traceparent`, `tracestate`): spans begun
   * from it are part of that trace, and linked to this one. Itself where the message names none, or the one that it is
   * in.
   */
  within(message: MessageTrace): TraceSpan;
}

/** What a message says of its trace; a client's own words, of any type. */
export interface MessageTrace {
  readonly traceparent?: unknown;
  readonly tracestate?: unknown;
}

export interface ChildSpan extends TraceSpan {
  /**
   * Ends it; whatever comes after is passed over, and one that is never ended is never exported. `error`: what went
   * wrong, a word of a short list (`error.type`); absent: nothing did.
   */
  end(error?: string): void;
}
