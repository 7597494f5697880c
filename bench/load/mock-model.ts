/**
 * A model server with the three APIs for models, which calls a tool if the request has any. It needs little CPU: it
 * serves HTTP on raw sockets, and one timer writes the next token to all streams that are due. Each stream has its own
 * moment in the 20 ms between two tokens. The first token is sent with the head, so the time to it is that of the path
 * alone. Prints its port.
 *
 * The tokens of `Bench/Paced-1` contain the time at which they were sent (nanoseconds of the machine's monotonic
 * clock). Those of `Bench/Burst-1` are all sent at once. Both answer with a text over chat completions.
 */
import { apis, type Api } from "./chat-client.ts";
import { answerEvents, textToken } from "./model-answers.ts";
import { createServer, type AddressInfo, type Socket } from "node:net";

interface Stream {
  readonly socket: Socket;
  left: number;
  readonly token: Buffer;
  readonly end: string;
  readonly isTimed: boolean;
}

/** Milliseconds between two tokens: 50 tokens per second. */
const tokenMs = 20;
const model = "Bench/Echo-1";
const models = [model, "Bench/Paced-1", "Bench/Burst-1"];
const head = Buffer.from(
  "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
);
const documents = new Map([
  [
    "/v1/models",
    JSON.stringify({
      object: "list",
      data: models.map((id) => ({ id, object: "model", created: 1, owned_by: "bench" })),
    }),
  ],
  [
    "/status",
    JSON.stringify({
      price_per_token_nano: "12",
      workers: models.map((id) => ({ id, model: id, coefficient: 1000, state: "active" })),
    }),
  ],
]);

function timedToken(): Buffer {
  return Buffer.from(textToken(` ${process.hrtime.bigint()}`));
}

/** The streams by the millisecond at which they are due, modulo `tokenMs`. */
const wheel: Stream[][] = Array.from({ length: tokenMs }, () => []);
const started = performance.now();
let turns = 0;
setInterval(() => {
  const due = Math.floor(performance.now() - started);
  for (; turns < due; turns++) sendTokens(wheel[turns % tokenMs]!);
}, 1);

function sendTokens(streams: Stream[]): void {
  let kept = 0;
  for (const stream of streams) {
    if (stream.socket.destroyed) continue;
    if (stream.left > 0) {
      stream.left--;
      stream.socket.write(stream.isTimed ? timedToken() : stream.token);
      streams[kept++] = stream;
    } else stream.socket.write(stream.end);
  }
  streams.length = kept;
}

function respond(socket: Socket, requestHead: string, body: string): void {
  if (requestHead.startsWith("GET ")) {
    const document = documents.get(requestHead.split(" ", 2)[1] ?? "");
    const text = document ?? "{}";
    const status = document === undefined ? "404 Not Found" : "200 OK";
    socket.write(
      `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
    );
    return;
  }
  const answer = answerTo(requestHead, body);
  if (body.includes("Bench/Burst-1")) {
    socket.write(
      Buffer.concat([answer.first, ...Array.from({ length: answer.left }, () => answer.token)]),
    );
    socket.write(answer.end);
    return;
  }
  const isTimed = body.includes("Bench/Paced-1");
  socket.write(isTimed ? Buffer.concat([head, timedToken()]) : answer.first);
  const { left, token, end } = answer;
  wheel[(turns + tokenMs - 1) % tokenMs]!.push({ socket, left, token, end, isTimed });
}

interface PreparedAnswer {
  readonly first: Buffer;
  readonly left: number;
  readonly token: Buffer;
  readonly end: string;
}

const prepared = new Map<string, PreparedAnswer>();

function answerTo(requestHead: string, body: string): PreparedAnswer {
  const path = requestHead.split(" ", 2)[1] ?? "";
  const [api = "chat"] = Object.keys(apis).filter((name) => path === apis[name as Api].path);
  const tokens = Number(/"max_(?:output_)?tokens":\s*(\d+)/.exec(body)?.[1] ?? 16);
  const isCall = body.includes('"tools":');
  const hasUsage = /"include_usage":\s*true/.test(body);
  const key = `${api} ${tokens} ${isCall} ${hasUsage}`;
  const known = prepared.get(key);
  if (known !== undefined) return known;
  const events = answerEvents(api as Api, tokens, isCall, hasUsage);
  const answer: PreparedAnswer = {
    first: Buffer.concat([head, Buffer.from(events.opening + events.first)]),
    // The last token of a call closes its arguments.
    left: tokens - (isCall ? 2 : 1),
    token: Buffer.from(events.token),
    end: `${isCall ? events.last : ""}${events.end}0\r\n\r\n`,
  };
  prepared.set(key, answer);
  return answer;
}

/** A connection has one request at a time. Its body has a length, or chunks that end with an empty one. */
function take(socket: Socket): (chunk: Buffer) => void {
  let pending = "";
  return (chunk) => {
    pending += chunk.toString("latin1");
    const end = pending.indexOf("\r\n\r\n");
    if (end === -1) return;
    const requestHead = pending.slice(0, end);
    const body = pending.slice(end + 4);
    const isChunked = /\r\ntransfer-encoding: *chunked/i.test(requestHead);
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(requestHead)?.[1] ?? 0);
    if (isChunked ? !body.endsWith("0\r\n\r\n") : body.length < length) return;
    pending = "";
    respond(socket, requestHead, body);
  };
}

const server = createServer({ noDelay: true }, (socket) => {
  // When a proxy disconnects, its streams end. `sendTokens` removes them.
  socket.on("error", () => {});
  socket.on("data", take(socket));
});
server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, () => {
  // A server that listens on a port has an AddressInfo.
  console.log((server.address() as AddressInfo).port);
});
