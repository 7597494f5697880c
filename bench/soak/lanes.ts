/** The clients of a soak run. Each lane is one client that repeats the same request with pauses. */
import { Agent, request, type ClientRequest, type IncomingMessage } from "node:http";
import { connect as connectSocket, type Socket } from "node:net";
import { connect } from "../../plugins/confidential/client/client.ts";
import type { Book } from "./book.ts";
import type { SoakedGateway } from "./gateway.ts";
import { createDice, sleep, type Dice } from "./random.ts";
import { model, storageMethod } from "./upstreams.ts";

export interface LaneContext {
  readonly gateway: SoakedGateway;
  readonly book: Book;
  readonly workerRoot: string;
  /** Pauses are multiplied by `factor`, which limits the load. */
  readonly pace: { factor: number };
  /** Aborts when the lanes must end. */
  readonly signal: AbortSignal;
}

interface Lane extends LaneContext {
  readonly name: string;
  readonly dice: Dice;
  readonly agent: Agent;
  count: number;
}

/** Price of a token: 12 nano native tokens × 0.25 USD. */
const tokenMilli = 3;
/** Number of tokens that a chat reserves for the template of the model, in addition to its prompt. */
const templateTokens = 16_384;
/** Maximum price of a node method or tool of these lanes, with a margin. */
const callMilli = 5_000;
const longAnswer = 400;
const encryptedTokens = 20;
export const maxSessionMilli = (64 * 1024 + templateTokens + encryptedTokens) * tokenMilli;

type Turn = (lane: Lane) => Promise<void>;

/** Maps the name of a lane to its request and the pause after it in milliseconds. */
const turns: Readonly<Record<string, readonly [turn: Turn, pauseMs: number]>> = {
  "node call": [nodeCall, 15],
  "node batch": [nodeBatch, 60],
  "tool over rpc": [toolRpc, 50],
  "tools in an array": [toolArray, 90],
  "tool over mcp": [toolMcp, 50],
  models: [listModels, 100],
  "whole chat": [(lane) => chat(lane, { max_tokens: 8 }), 60],
  "streamed chat": [(lane) => chat(lane, { max_tokens: 12, ...streaming }), 60],
  "chat that is left": [leaveChat, 80],
  "slow reader": [readSlowly, 100],
  "encrypted session": [encryptedSession, 200],
  "encrypted session that is left": [leaveSession, 400],
  "unfinished body": [unfinishedBody, 250],
  "bad upgrade": [badUpgrade, 150],
  "malformed bytes": [malformedBytes, 150],
};

const streaming = { stream: true, stream_options: { include_usage: true } };

/** Runs every lane until the signal aborts. Resolves when all have ended. Rejects with the error of a lane. */
export async function runLanes(context: LaneContext, seed: number): Promise<void> {
  const lanes = Object.entries(turns).map(async ([name, [turn, pauseMs]], at) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 2 });
    const lane = { ...context, name, dice: createDice(seed + 7919 * (at + 1)), agent, count: 0 };
    while (!context.signal.aborted) {
      await turn(lane);
      lane.count++;
      await sleep((pauseMs / 2 + lane.dice.int(pauseMs)) * context.pace.factor);
    }
    agent.destroy();
  });
  await Promise.all(lanes);
}

interface Sent {
  readonly id: string;
  readonly request: ClientRequest;
  /** Undefined if the connection broke before an answer arrived. */
  readonly response: Promise<IncomingMessage | undefined>;
}

function send(lane: Lane, path: string, body: unknown): Sent {
  const { gateway, agent } = lane;
  const id = `${lane.name.replaceAll(" ", "-")}-${lane.count}`;
  const { promise, resolve } = Promise.withResolvers<IncomingMessage | undefined>();
  const sent = request(gateway.url + path, {
    method: body === undefined ? "GET" : "POST",
    agent,
    headers: {
      authorization: `Bearer ${gateway.key.key}`,
      "x-request-id": id,
      ...(body !== undefined && { "content-type": "application/json" }),
    },
  });
  sent.on("response", resolve);
  sent.on("error", () => resolve(undefined));
  sent.on("close", () => resolve(undefined));
  sent.end(body === undefined ? undefined : JSON.stringify(body));
  return { id, request: sent, response: promise };
}

/** Returns the whole text. Undefined if the connection broke before its end. */
async function read(response: IncomingMessage): Promise<string | undefined> {
  let text = "";
  response.setEncoding("utf8");
  try {
    for await (const chunk of response) text += String(chunk);
    return response.complete ? text : undefined;
  } catch {
    return undefined;
  }
}

/** Sends the request, reads the answer to its end, and keeps its price if it has one. */
async function paid(lane: Lane, path: string, body: unknown, maxMilli: number): Promise<void> {
  const { id, response } = send(lane, path, body);
  const entry = lane.book.open(id, maxMilli);
  const answer = await response;
  if (answer === undefined) return;
  const text = await read(answer);
  if (text === undefined) return;
  if (answer.headers["content-type"]?.startsWith("text/event-stream") === true) {
    const milli = /"usedCUMilli":(\d+)\}\}\n\ndata: \[DONE\]\n\n$/.exec(text)?.[1];
    if (milli !== undefined) entry.pricedMilli = Number(milli);
    return;
  }
  entry.pricedMilli = Number(answer.headers["x-used-cu-milli"] ?? 0);
}

const call = (id: number, method: string, params: readonly unknown[]): object => ({
  jsonrpc: "2.0",
  id,
  method,
  params,
});

function storageCall(lane: Lane, id = 1): object {
  return call(id, storageMethod, [`0x${lane.dice.int(1_000_000).toString(16).padStart(6, "0")}`]);
}

function nodeCall(lane: Lane): Promise<void> {
  return paid(lane, "/v1/ledger/rpc", storageCall(lane), callMilli);
}

function nodeBatch(lane: Lane): Promise<void> {
  const items = Array.from({ length: 1 + lane.dice.int(8) }, (_, id) => storageCall(lane, id));
  return paid(lane, "/v1/ledger/rpc", items, items.length * callMilli);
}

const toolCall = (id: number): object => ({
  jsonrpc: "2.0",
  id,
  method: "tools.call",
  params: { tool: "ledger_getHealth", params: {} },
});

function toolRpc(lane: Lane): Promise<void> {
  return paid(lane, "/rpc", toolCall(1), callMilli);
}

function toolArray(lane: Lane): Promise<void> {
  const items = Array.from({ length: 1 + lane.dice.int(6) }, (_, id) => toolCall(id));
  return paid(lane, "/rpc", items, items.length * callMilli);
}

function toolMcp(lane: Lane): Promise<void> {
  return paid(lane, "/mcp", { tool: "ledger_getHealth", input: {} }, callMilli);
}

function listModels(lane: Lane): Promise<void> {
  return paid(lane, "/v1/models", undefined, 0);
}

function chatBody(members: { readonly max_tokens: number }): object {
  return { model, messages: [{ role: "user", content: "A few words, please." }], ...members };
}

function chatMostMilli(body: object, tokens: number): number {
  return (JSON.stringify(body).length + templateTokens + tokens) * tokenMilli;
}

function chat(lane: Lane, members: { readonly max_tokens: number }): Promise<void> {
  const body = chatBody(members);
  return paid(lane, "/v1/chat/completions", body, chatMostMilli(body, members.max_tokens));
}

/** Leaves before the answer, during its head or during its words. */
async function leaveChat(lane: Lane): Promise<void> {
  const body = chatBody({ max_tokens: 40, ...(lane.dice.int(3) > 0 ? streaming : {}) });
  const { id, request: sent, response } = send(lane, "/v1/chat/completions", body);
  lane.book.open(id, chatMostMilli(body, 40));
  void response.then((answer) => answer?.on("error", () => {}).resume());
  await sleep(lane.dice.int(150));
  sent.destroy();
}

/** Reads nothing for a while, then everything. */
async function readSlowly(lane: Lane): Promise<void> {
  const body = chatBody({ max_tokens: longAnswer, ...streaming });
  const { id, response } = send(lane, "/v1/chat/completions", body);
  lane.book.open(id, chatMostMilli(body, longAnswer));
  const answer = await response;
  if (answer === undefined) return;
  answer.on("error", () => {});
  await sleep(500 + lane.dice.int(1_500));
  await read(answer);
}

async function openSession(lane: Lane): Promise<Awaited<ReturnType<typeof connect>> | undefined> {
  try {
    return await connect({
      url: lane.gateway.url,
      apiKey: lane.gateway.sessionKey.key,
      network: "alpha",
      model,
      maxOutputTokens: encryptedTokens,
      allowSimulated: true,
      simulatedRoots: [lane.workerRoot],
      treatSimulatedAsVerified: true,
    });
  } catch {
    // The worker's model server may have closed its port.
    return undefined;
  }
}

const encryptedChat = {
  messages: [{ role: "user", content: "A few words, please." }],
  max_tokens: encryptedTokens,
};

async function encryptedSession(lane: Lane): Promise<void> {
  const session = await openSession(lane);
  if (session === undefined) return;
  for (let turn = lane.dice.int(3); turn >= 0; turn--) {
    try {
      const answer = session.chat(encryptedChat);
      const [final] = await Promise.all([answer.final, drain(answer)]);
      lane.book.sessionMilli.push(final.usedCUMilli);
    } catch {
      lane.book.sessionsLeft++;
      break;
    }
  }
  await session.close();
}

async function drain(answer: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of answer);
}

async function leaveSession(lane: Lane): Promise<void> {
  const session = await openSession(lane);
  if (session === undefined) return;
  const answer = session.chat(encryptedChat);
  lane.book.sessionsLeft++;
  answer.final.catch(() => {});
  drain(answer).catch(() => {});
  await sleep(lane.dice.int(100));
  await session.close();
}

/** Opens a raw connection. Its errors are ignored. */
function openSocket({ gateway }: LaneContext): Socket {
  const { hostname, port } = new URL(gateway.url);
  return connectSocket(Number(port), hostname)
    .on("error", () => {})
    .resume();
}

/** Sends a request of whose announced body only a part arrives. It must not be charged. */
async function unfinishedBody(lane: Lane): Promise<void> {
  const id = `${lane.name.replaceAll(" ", "-")}-${lane.count}`;
  lane.book.open(id, 0);
  using socket = disposable(openSocket(lane));
  const head = [
    "POST /v1/chat/completions HTTP/1.1",
    "host: a",
    `authorization: Bearer ${lane.gateway.key.key}`,
    `x-request-id: ${id}`,
    "content-type: application/json",
    `content-length: ${lane.dice.pick([200, 100_000])}`,
  ];
  socket.value.write(`${head.join("\r\n")}\r\n\r\n{"model":"`);
  await sleep(lane.dice.int(1_000));
}

const badProtocols = ["confidential.v1,,", "confidential.v1, confidential.v1", "none", "a b", ""];

/** Sends a handshake that must be refused, or leaves at once. */
async function badUpgrade(lane: Lane): Promise<void> {
  using socket = disposable(openSocket(lane));
  const head = [
    "GET /v1/confidential/stream HTTP/1.1",
    "host: a",
    `authorization: Bearer ${lane.gateway.sessionKey.key}`,
    "connection: Upgrade",
    "upgrade: websocket",
    `sec-websocket-version: ${lane.dice.pick(["13", "13", "13", "12"])}`,
    `sec-websocket-key: ${lane.dice.pick(["dGhlIHNhbXBsZSBub25jZQ==", "short"])}`,
    `sec-websocket-protocol: ${lane.dice.pick(["confidential.v1", ...badProtocols])}`,
  ];
  socket.value.write(`${head.join("\r\n")}\r\n\r\n`);
  await sleep(lane.dice.int(200));
}

const malformed = [
  "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
  "POST /rpc HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
  "\x16\x03\x01\x02\x00\x01",
  "GET /v1/models HTTP/1.1\r\nhost: a\r\n\r\nGARBAGE\r\n\r\n",
  "POST /mcp HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\n{{{{",
];

async function malformedBytes(lane: Lane): Promise<void> {
  using socket = disposable(openSocket(lane));
  socket.value.write(lane.dice.pick(malformed), "latin1");
  await sleep(lane.dice.int(200));
}

function disposable(socket: Socket): Disposable & { readonly value: Socket } {
  return { value: socket, [Symbol.dispose]: () => void socket.destroy() };
}

/** Starts the requests that still run at SIGTERM: long answers, one unread, an unfinished body and a session. */
export function leaveRunning(context: LaneContext): void {
  const agent = new Agent({ keepAlive: false });
  const lane = { ...context, name: "at the end", dice: createDice(1), agent, count: 0 };
  for (let n = 0; n < 4; n++) {
    const body = chatBody({ max_tokens: longAnswer, ...streaming });
    const { id, response } = send(lane, "/v1/chat/completions", body);
    context.book.open(id, chatMostMilli(body, longAnswer));
    lane.count++;
    void response.then((answer) => {
      answer?.on("error", () => {});
      if (n > 0) answer?.resume();
    });
  }
  void unfinishedBody({ ...lane, name: "unfinished at the end" });
  void badUpgrade(lane);
}
