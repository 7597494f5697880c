/** The slot `trace` of the step `trace`: the spans of one exchange. It is not set if no traces are exported. */

/**
 * Attributes by their names in OpenTelemetry's semantic conventions. Undefined values are omitted. Shorten text from a
 * client before you pass it, and never pass a secret: no prompt, no header, no input of a tool.
 */
export type SpanAttributes = Readonly<
  Record<string, string | number | boolean | readonly string[] | undefined>
>;

/** The span of the exchange, or a span below it. */
export interface TraceSpan {
  /** 32 hex digits: the trace of the client if it sent one, else a trace that the gateway began. */
  readonly traceId: string;
  /** 16 hex digits. */
  readonly spanId: string;
  /**
   * Headers for requests that are made within this span, as a flat list of name, value …: `traceparent`, and
   * `tracestate` if the client sent one (W3C Trace Context).
   */
  readonly headers: readonly string[];
  set(attributes: SpanAttributes): void;
  /** Begins a span below this one. `kind`: `client` for a request to another server. */
  child(name: string, kind: "client" | "internal", attributes?: SpanAttributes): ChildSpan;
  /**
   * Returns a view of this span for a message in its body that carries another trace context (`traceparent`,
   * `tracestate`). Spans that are begun from the view belong to that trace and are linked to this span. Returns this
   * span itself if the message has no trace, or the same trace.
   */
  within(message: MessageTrace): TraceSpan;
}

/** The trace context of a message. The values come from the client and can have any type. */
export interface MessageTrace {
  readonly traceparent?: unknown;
  readonly tracestate?: unknown;
}

export interface ChildSpan extends TraceSpan {
  /**
   * Ends the span. Later calls are ignored, and a span that is never ended is never exported. `error`: the error as a
   * word from a short list (`error.type`); undefined if the span succeeded.
   */
  end(error?: string): void;
}
