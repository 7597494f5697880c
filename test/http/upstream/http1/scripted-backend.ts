/** A backend whose answers a test writes byte for byte, and a client and exchanges for it. */
import { once } from "node:events";
import net, { type AddressInfo, type Socket } from "node:net";
import type { TestContext } from "node:test";
import { Http1Client } from "../../../../src/http/upstream/http1/client.ts";
import type {
  Http1Carrier,
  Http1Options,
  UpstreamExchange,
} from "../../../../src/http/upstream/http1/exchange.ts";
import type { UpstreamFailure } from "../../../../src/contract/upstream-failure.ts";
import type { ResponseHead } from "../../../../src/http/upstream/http1/response-head.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";

export const whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

export interface Opened {
  readonly client: Http1Client;
  readonly clock: ManualClock;
  readonly bugs: unknown[];
  /** Resolves to the socket of the next request that arrives, in order of arrival. */
  readonly request: () => Promise<Socket>;
  /** Sends an exchange, answers its request, and resolves when the exchange has ended. */
  readonly answer: (exchange: TestExchange, text?: string) => TestExchange["ended"];
  readonly connections: () => number;
  readonly received: (socket: Socket) => string;
  readonly until: (socket: Socket, text: string) => Promise<string>;
}

export async function open(t: TestContext, options: Partial<Http1Options> = {}): Promise<Opened> {
  const arrived: Socket[] = [];
  const waiting: ((socket: Socket) => void)[] = [];
  const received = new Map<Socket, string>();
  let connections = 0;
  const server = net.createServer((socket) => {
    connections++;
    received.set(socket, "");
    socket.on("error", () => {});
    // Each request of these tests arrives in one read.
    socket.on("data", (bytes) => {
      received.set(socket, received.get(socket) + bytes.toString("latin1"));
      const next = waiting.shift();
      if (next === undefined) arrived.push(socket);
      else next(socket);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const clock = manualClock();
  const bugs: unknown[] = [];
  const client = new Http1Client({
    url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    connections: Infinity,
    connectMs: 1_000,
    answerMs: 5_000,
    idleMs: 2_000,
    unusedMs: 60_000,
    maxAnswerBytes: 1_000_000,
    clock,
    onBug: (error) => bugs.push(error),
    ...options,
  });
  t.after(async () => {
    await client.close();
    for (const socket of received.keys()) socket.destroy();
    server.close();
  });
  const request = (): Promise<Socket> => {
    const socket = arrived.shift();
    return socket === undefined
      ? new Promise((resolve) => waiting.push(resolve))
      : Promise.resolve(socket);
  };
  const answer: Opened["answer"] = async (exchange, text = whole) => {
    client.send(exchange);
    (await request()).write(text, "latin1");
    return exchange.ended;
  };
  const textOf = (socket: Socket): string => received.get(socket) ?? "";
  const until = async (socket: Socket, text: string): Promise<string> => {
    while (!textOf(socket).includes(text)) await once(socket, "data");
    return textOf(socket);
  };
  return {
    client,
    clock,
    bugs,
    request,
    answer,
    connections: () => connections,
    received: textOf,
    until,
  };
}

type Callback = "onHead" | "onData" | "onRead" | "onEnd" | "onError";
type Request = Partial<Pick<UpstreamExchange, "head" | "retryPolicy" | "body">>;

export class TestExchange implements UpstreamExchange {
  readonly head: string;
  readonly retryPolicy: UpstreamExchange["retryPolicy"];
  readonly answerMs = 5_000;
  readonly body: UpstreamExchange["body"];
  readonly calls: string[] = [];
  readonly fields: (readonly string[])[] = [];
  trailers: readonly string[] = [];
  readonly ended: Promise<UpstreamFailure["kind"] | "done">;
  carrier: Http1Carrier | undefined;
  readonly #end: (how: UpstreamFailure["kind"] | "done") => void;
  readonly #throwsIn: Callback | undefined;

  constructor(throwsIn?: Callback, request: Request = {}) {
    const { head = "POST / HTTP/1.1\r\nHost: test\r\n", retryPolicy = "ifUnwritten" } = request;
    this.head = head;
    this.retryPolicy = retryPolicy;
    this.body = request.body ?? (() => "{}");
    this.#throwsIn = throwsIn;
    const { promise, resolve } = Promise.withResolvers<UpstreamFailure["kind"] | "done">();
    this.ended = promise;
    this.#end = resolve;
  }

  onStart(carrier: Http1Carrier): void {
    this.carrier = carrier;
  }

  onInterim({ status, fields }: ResponseHead): void {
    this.fields.push(fields);
    this.#note("onInterim", `interim ${status}`);
  }

  onHead({ fields }: ResponseHead): void {
    this.fields.push(fields);
    this.#note("onHead", "head");
  }

  onData(bytes: Buffer, start: number, end: number): void {
    this.#note("onData", bytes.toString("latin1", start, end));
  }

  onRead(): void {
    this.#note("onRead", "read");
  }

  onEnd(trailers: readonly string[]): void {
    this.trailers = trailers;
    this.#end("done");
    this.#note("onEnd", "end");
  }

  onError(failure: UpstreamFailure): void {
    this.#end(failure.kind);
    this.#note("onError", failure.kind);
  }

  #note(callback: string, call: string): void {
    this.calls.push(call);
    if (callback === this.#throwsIn) throw new Error(`a bug in ${callback}`);
  }
}
