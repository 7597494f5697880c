/** A model server for tests. It answers each chat request with the next script, or the test sends the answer itself. */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import { closed, listening } from "../../../e2e/rpc-node.ts";
import { whole } from "./worker-scripts.ts";

export interface ChatReceived {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The text of the body, for tests of exactly what was sent. */
  readonly text: string;
  /** The parsed body. Empty if it is not a JSON object. */
  readonly body: Readonly<Record<string, unknown>>;
}

export interface Exchange extends ChatReceived {
  /** Sends the head at once. Default: 200 and `text/event-stream`; the given headers are added. */
  begin(status?: number, headers?: Readonly<Record<string, string>>): void;
  /** `taken`: the kernel has accepted the bytes. Pending while the caller does not read. */
  push(bytes: string | Buffer): Promise<"taken" | "left">;
  end(): void;
  /** Ends the connection without ending the answer. */
  cut(): void;
  /** Number of pushed bytes that the kernel has not accepted. */
  readonly waitingBytes: number;
  /** Resolves when the caller closes the connection before the end of the answer. */
  readonly left: Promise<void>;
}

/** Answers one chat request. If it throws or returns early, the request stays unanswered. */
export type Script = (exchange: Exchange) => void | Promise<void>;

export interface WorkerOptions {
  readonly models?: readonly string[];
  /** Answers when no script is waiting. Default: `whole()`. */
  readonly otherwise?: Script;
}

export interface Worker extends AsyncDisposable {
  /** `http://127.0.0.1:port`. */
  readonly url: string;
  /** Every chat request received, in order. A test of very many requests empties it. */
  readonly received: ChatReceived[];
  /** Chat requests that have neither been answered completely nor abandoned by the caller. */
  readonly inFlight: number;
  /** Number of connections that have carried chat requests. */
  readonly connections: number;
  readonly reads: readonly string[];
  /** Answers to GET requests by path. Text is sent unchanged, a number is a status without a body, all else is JSON. */
  readonly documents: Map<string, unknown>;
  script(...scripts: readonly Script[]): void;
  /** Returns the next chat request that no earlier script answers, so that the test can answer it. */
  hold(): Promise<Exchange>;
  idle(): Promise<void>;
  /** Cuts all connections and refuses new ones, until `accept`. */
  refuse(): Promise<void>;
  accept(): Promise<void>;
}

export async function startWorker({
  models = ["Test/Model-1"],
  otherwise = whole(),
}: WorkerOptions = {}): Promise<Worker> {
  const received: ChatReceived[] = [];
  const reads: string[] = [];
  const sockets = new Set<object>();
  const documents = new Map<string, unknown>([["/v1/models", catalogue(models)]]);
  const scripts: Script[] = [];
  const idlers: (() => void)[] = [];
  let inFlight = 0;

  const answerChat = async (request: ChatReceived, response: ServerResponse): Promise<void> => {
    received.push(request);
    inFlight++;
    response.once("close", () => {
      inFlight--;
      if (inFlight === 0) for (const idle of idlers.splice(0)) idle();
    });
    await (scripts.shift() ?? otherwise)(exchangeOf(request, response));
  };
  const server = createServer((req, res) => {
    let text = "";
    req.setEncoding("utf8");
    req.on("data", (chunk: string) => (text += chunk));
    req.on("end", () => {
      const path = req.url ?? "";
      if (req.method === "POST") {
        sockets.add(req.socket);
        void answerChat({ path, headers: req.headers, text, body: parse(text) }, res);
        return;
      }
      reads.push(path);
      sendDocument(res, documents.get(path) ?? 404);
    });
  });
  // A test with a manual clock must not see a connection that the real clock has closed.
  server.keepAliveTimeout = 0;
  const url = await listening(server);
  return {
    url,
    received,
    get inFlight() {
      return inFlight;
    },
    get connections() {
      return sockets.size;
    },
    reads,
    documents,
    script: (...more) => void scripts.push(...more),
    hold: () => new Promise((resolve) => void scripts.push((exchange) => resolve(exchange))),
    idle: () =>
      inFlight === 0 ? Promise.resolve() : new Promise((resolve) => void idlers.push(resolve)),
    refuse: () => closed(server),
    async accept() {
      server.listen(Number(new URL(url).port), "127.0.0.1");
      await once(server, "listening");
    },
    [Symbol.asyncDispose]: async () => {
      if (server.listening) await closed(server);
    },
  };
}

function exchangeOf(request: ChatReceived, response: ServerResponse): Exchange {
  const left = Promise.withResolvers<void>();
  const pending = new Set<() => void>();
  let isCut = false;
  response.once("close", () => {
    for (const leave of pending) leave();
    if (!response.writableFinished && !isCut) left.resolve();
  });
  // Some tests write to a connection that has closed.
  response.on("error", () => {});
  return {
    ...request,
    begin(status = 200, headers = {}) {
      response.writeHead(status, { "content-type": "text/event-stream", ...headers });
      response.flushHeaders();
    },
    push(bytes) {
      if (!response.headersSent) throw new Error("the head comes first: begin()");
      if (response.destroyed) return Promise.resolve("left");
      return new Promise((resolve) => {
        const leave = () => resolve("left");
        pending.add(leave);
        response.write(bytes, (error) => {
          pending.delete(leave);
          resolve(error ? "left" : "taken");
        });
      });
    },
    end: () => void response.end(),
    cut() {
      isCut = true;
      response.destroy();
    },
    get waitingBytes() {
      return response.writableLength;
    },
    left: left.promise,
  };
}

function catalogue(models: readonly string[]): object {
  const data = models.map((id) => ({
    id,
    object: "model",
    created: 1_767_225_600,
    owned_by: "test",
  }));
  return { object: "list", data };
}

function sendDocument(response: ServerResponse, document: unknown): void {
  if (typeof document === "number") {
    response.writeHead(document).end();
    return;
  }
  const text = typeof document === "string" ? document : JSON.stringify(document);
  response.writeHead(200, { "content-type": "application/json" }).end(text);
}

function parse(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    // A JSON object has members by name. A test reads the members that it sent.
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
