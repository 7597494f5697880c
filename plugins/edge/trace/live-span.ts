/** A span of the SDK with the times of the gateway's clock. */
import {
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Attributes,
  type Context,
  type Span,
  type Tracer,
} from "@opentelemetry/api";
import type { ChildSpan, Clock, MessageTrace, SpanAttributes } from "sluice-gateway/plugin";
import { fieldsOf, parentOf } from "./trace-context.ts";

interface Timeline {
  readonly tracer: Tracer;
  readonly clock: Clock;
  /** Offset from the monotonic clock to milliseconds since 1970. With it, no span ends before its start. */
  readonly offsetMs: number;
}

const kinds = { client: SpanKind.CLIENT, internal: SpanKind.INTERNAL } as const;

export class LiveSpan implements ChildSpan {
  readonly #span: Span;
  readonly #timeline: Timeline;
  /** The parent of further child spans, if it is not this span. */
  readonly #elsewhere: Context | undefined;
  #headers: readonly string[] | undefined;

  constructor(span: Span, timeline: Timeline, elsewhere?: Context) {
    this.#span = span;
    this.#timeline = timeline;
    this.#elsewhere = elsewhere;
  }

  /** False if the sampler excluded the trace, or the span has ended. */
  get recorded(): boolean {
    return this.#span.isRecording();
  }

  get traceId(): string {
    return this.#span.spanContext().traceId;
  }

  get spanId(): string {
    return this.#span.spanContext().spanId;
  }

  get headers(): readonly string[] {
    this.#headers ??= fieldsOf(this.#span.spanContext());
    return this.#headers;
  }

  set(attributes: SpanAttributes): void {
    if (this.recorded) this.#span.setAttributes(present(attributes));
  }

  child(name: string, kind: "client" | "internal", attributes: SpanAttributes = {}): LiveSpan {
    const links = this.#elsewhere === undefined ? [] : [{ context: this.#span.spanContext() }];
    const span = this.#timeline.tracer.startSpan(
      name,
      { kind: kinds[kind], startTime: this.#now(), attributes: present(attributes), links },
      this.#elsewhere ?? trace.setSpan(ROOT_CONTEXT, this.#span),
    );
    return new LiveSpan(span, this.#timeline);
  }

  within(message: MessageTrace): LiveSpan {
    const elsewhere = parentOf(message);
    const named = trace.getSpanContext(elsewhere)?.traceId;
    if (named === undefined || named === this.#span.spanContext().traceId) return this;
    return new LiveSpan(this.#span, this.#timeline, elsewhere);
  }

  fail(): void {
    this.#span.setStatus({ code: SpanStatusCode.ERROR });
  }

  end(error?: string): void {
    if (!this.recorded) return;
    if (error !== undefined) {
      this.#span.setAttribute("error.type", error);
      this.fail();
    }
    this.#span.end(this.#now());
  }

  #now(): number {
    return this.#timeline.offsetMs + this.#timeline.clock.monotonic();
  }
}

function present(attributes: SpanAttributes): Attributes {
  const found: Attributes = {};
  for (const [name, value] of Object.entries(attributes)) {
    // The SDK's type does not accept readonly lists, so they are copied.
    if (value !== undefined) found[name] = typeof value === "object" ? [...value] : value;
  }
  return found;
}
