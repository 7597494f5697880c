/**
 * A collector for tests: accepts what an OTLP exporter posts to /v1/traces and decodes the protobuf, so that a test
 * sees what a real collector would. Field numbers: opentelemetry-proto, trace/v1/trace.proto, common/v1/common.proto.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { TestContext } from "node:test";
import { gunzipSync } from "node:zlib";

type Value = string | number | boolean | readonly Value[];
export type Attributes = Readonly<Record<string, Value>>;

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for a root span. */
  readonly parentSpanId: string;
  readonly traceState: string;
  readonly name: string;
  /** 1 internal, 2 server, 3 client. */
  readonly kind: number;
  /** Nanoseconds since 1970. */
  readonly start: bigint;
  readonly end: bigint;
  readonly attributes: Attributes;
  /** Spans that this one is linked to, as `traceId spanId`. */
  readonly links: readonly string[];
  /** 0 unset, 1 ok, 2 error. */
  readonly status: number;
  readonly resource: Attributes;
}

export interface Receiver extends AsyncDisposable {
  readonly url: string;
  readonly spans: readonly ReceivedSpan[];
  /** Number of posts that have arrived, including refused ones. */
  readonly posts: number;
  answerWith(status: number): void;
  hold(until: Promise<void>): void;
  /** Resolves when this number of posts has been answered. */
  posted(count: number): Promise<void>;
}

export async function openReceiver(): Promise<Receiver> {
  const spans: ReceivedSpan[] = [];
  let status = 200;
  let posts = 0;
  let gate = Promise.resolve();
  let wake = (): void => {};
  const server = createServer((req, res) => {
    void bodyOf(req).then(async (body) => {
      await gate;
      posts++;
      if (status === 200) spans.push(...readRequest(body));
      res.writeHead(status).end();
      wake();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    spans,
    get posts() {
      return posts;
    },
    answerWith: (next) => (status = next),
    hold: (until) => void (gate = until),
    async posted(count) {
      while (posts < count) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

/** Sets variables of OpenTelemetry for one test, and removes those of the machine. */
export function environment(t: TestContext, env: Readonly<Record<string, string>>): void {
  const before = Object.entries(process.env).filter(([name]) => name.startsWith("OTEL_"));
  const clear = (): void => {
    for (const name of Object.keys(process.env)) {
      if (name.startsWith("OTEL_")) delete process.env[name];
    }
  };
  clear();
  Object.assign(process.env, env);
  t.after(() => {
    clear();
    Object.assign(process.env, Object.fromEntries(before));
  });
}

export function one(spans: readonly ReceivedSpan[], name: string): ReceivedSpan {
  const found = spans.filter((span) => span.name === name);
  assert.equal(found.length, 1, `${name} among ${spans.map((span) => span.name).join(", ")}`);
  return found[0]!;
}

async function bodyOf(req: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  return req.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body;
}

/** ExportTraceServiceRequest. */
function readRequest(body: Buffer): ReceivedSpan[] {
  return readMessage(body)
    .messages(1)
    .flatMap((resourceSpans) => {
      const resource = attributesOf(resourceSpans.messages(1)[0]?.messages(1) ?? []);
      return resourceSpans
        .messages(2)
        .flatMap((scope) => scope.messages(2).map((span) => readSpan(span, resource)));
    });
}

function readSpan(span: Message, resource: Attributes): ReceivedSpan {
  return {
    traceId: span.bytes(1).toString("hex"),
    spanId: span.bytes(2).toString("hex"),
    traceState: span.text(3),
    parentSpanId: span.bytes(4).toString("hex"),
    name: span.text(5),
    kind: Number(span.number(6)),
    start: span.number(7),
    end: span.number(8),
    attributes: attributesOf(span.messages(9)),
    links: span
      .messages(13)
      .map((link) => `${link.bytes(1).toString("hex")} ${link.bytes(2).toString("hex")}`),
    status: Number(span.messages(15)[0]?.number(3) ?? 0n),
    resource,
  };
}

function attributesOf(pairs: readonly Message[]): Attributes {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [value] = pair.messages(2);
      if (value === undefined) throw new Error(`attribute ${pair.text(1)} has no value`);
      return [pair.text(1), readValue(value)];
    }),
  );
}

function readValue(value: Message): Value {
  if (value.has(1)) return value.text(1);
  if (value.has(2)) return value.number(2) === 1n;
  if (value.has(3)) return Number(BigInt.asIntN(64, value.number(3)));
  if (value.has(4)) return value.bytes(4).readDoubleLE();
  const [list] = value.messages(5);
  if (list === undefined) throw new Error("an attribute of a kind that nobody sends here");
  return list.messages(1).map(readValue);
}

interface Message {
  has(field: number): boolean;
  bytes(field: number): Buffer;
  text(field: number): string;
  number(field: number): bigint;
  messages(field: number): Message[];
}

/**
 * The wire format of protobuf: a key (number and type), then a varint, eight bytes, length and bytes, or four bytes.
 */
function readMessage(bytes: Buffer): Message {
  const fields = new Map<number, (bigint | Buffer)[]>();
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes.readUInt8(at++);
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const take = (length: number): Buffer => {
    if (at + length > bytes.length) throw new Error("the message is cut off");
    at += length;
    return bytes.subarray(at - length, at);
  };
  while (at < bytes.length) {
    const key = Number(varint());
    const type = key & 7;
    if (type !== 0 && type !== 1 && type !== 2 && type !== 5) throw new Error(`wire type ${type}`);
    const value = type === 0 ? varint() : take(type === 1 ? 8 : type === 5 ? 4 : Number(varint()));
    fields.set(key >> 3, [...(fields.get(key >> 3) ?? []), value]);
  }
  const all = (field: number): (bigint | Buffer)[] => fields.get(field) ?? [];
  const last = (field: number): Buffer => {
    const value = all(field).at(-1);
    return typeof value === "bigint" || value === undefined ? Buffer.alloc(0) : value;
  };
  return {
    has: (field) => fields.has(field),
    bytes: last,
    text: (field) => last(field).toString("utf8"),
    number(field) {
      const value = all(field).at(-1) ?? 0n;
      return typeof value === "bigint" ? value : value.readBigUInt64LE();
    },
    messages: (field) =>
      all(field).flatMap((value) => (typeof value === "bigint" ? [] : [readMessage(value)])),
  };
}
