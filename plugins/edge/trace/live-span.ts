/** A span of the SDK as plugins see it: on the gateway's clock, without context of its own making. */
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

/** What all spans of one exchange share. */
interface Timeline {
  readonly tracer: Tracer;
  readonly clock: Clock;
  /** Added to the monotonic clock it gives milliseconds since 1970: no span ends before it began. */
  readonly offsetMs: number;
}

const kinds = { client: SpanKind.CLIENT, internal: SpanKind.INTERNAL } as const;

export class LiveSpan implements ChildSpan {
  readonly #span: Span;
  readonly #timeline: Timeline;
  /** Whose children the next spans are, where that is not this span. */
  readonly #elsewhere: Context | undefined;
  #headers: readonly string[] | undefined;

  constructor(span: Span, timeline: Timeline, elsewhere?: Context) {
    this.#span = span;
    this.#timeline = timeline;
    this.#elsewhere = elsewhere;
  }

  /** False where the sampler left the trace out, and once it has ended. */
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
    // The SDK's type has no readonly lists; it copies them.
    if (value !== undefined) found[name] = typeof value === "object" ? [...value] : value;
  }
  return found;
}
