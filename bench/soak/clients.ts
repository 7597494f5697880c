import { Agent, request, type ClientRequest, type IncomingMessage } from "node:http";
import { connect as connectSocket, type Socket } from "node:net";
import { connect } from "../../plugins/confidential/client/client.ts";
import type { ChargeComparison } from "./charge-comparison.ts";
import type { SoakedGateway } from "./gateway.ts";
import { createRandom, sleep, type Random } from "./random.ts";
import { model, storageMethod } from "./upstreams.ts";

export interface ClientContext {
  readonly gateway: SoakedGateway;
  readonly book: ChargeComparison;
  readonly workerRoot: string;
  /** Pauses are multiplied by `factor`, which limits the load. */
  readonly pace: { factor: number };
  readonly signal: AbortSignal;
}

interface SoakClient extends ClientContext {
  readonly name: string;
  readonly random: Random;
  readonly agent: Agent;
  count: number;
}

/** Price of a token: 12 nano native tokens × 0.25 USD. */
const tokenMilli = 3;
/** Number of tokens that a chat reserves for the template of the model. */
const templateTokens = 16_384;
/** Maximum price of a node method or tool of these clients, with a margin. */
const callMilli = 5_000;
const longAnswer = 400;
const encryptedTokens = 20;
export const maxSessionMilli = (64 * 1024 + templateTokens + encryptedTokens) * tokenMilli;

type SendRequest = (client: SoakClient) => Promise<void>;

const requests: Readonly<Record<string, readonly [send: SendRequest, pauseMs: number]>> = {
  "node call": [nodeCall, 15],
  "node batch": [nodeBatch, 60],
  "tool over rpc": [toolRpc, 50],
  "tools in an array": [toolArray, 90],
  "tool over mcp": [toolMcp, 50],
  models: [listModels, 100],
  "whole chat": [(client) => chat(client, { max_tokens: 8 }), 60],
  "streamed chat": [(client) => chat(client, { max_tokens: 12, ...streaming }), 60],
  "chat that is left": [leaveChat, 80],
  "slow reader": [readSlowly, 100],
  "encrypted session": [encryptedSession, 200],
  "encrypted session that is left": [leaveSession, 400],
  "unfinished body": [unfinishedBody, 250],
  "bad upgrade": [badUpgrade, 150],
  "malformed bytes": [malformedBytes, 150],
};

const streaming = { stream: true, stream_options: { include_usage: true } };

/** Resolves when all clients have ended after the signal. Rejects with the error of a client. */
export async function runClients(context: ClientContext, seed: number): Promise<void> {
  const clients = Object.entries(requests).map(async ([name, [sendRequest, pauseMs]], at) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 2 });
    const client = {
      ...context,
      name,
      random: createRandom(seed + 7919 * (at + 1)),
      agent,
      count: 0,
    };
    while (!context.signal.aborted) {
      await sendRequest(client);
      client.count++;
      await sleep((pauseMs / 2 + client.random.int(pauseMs)) * context.pace.factor);
    }
    agent.destroy();
  });
  await Promise.all(clients);
}

interface Sent {
  readonly id: string;
  readonly request: ClientRequest;
  /** Undefined if the connection broke before an answer arrived. */
  readonly response: Promise<IncomingMessage | undefined>;
}

function send(client: SoakClient, path: string, body: unknown): Sent {
  const { gateway, agent } = client;
  const id = `${client.name.replaceAll(" ", "-")}-${client.count}`;
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

/** Undefined if the connection broke before the end of the text. */
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

async function paid(
  client: SoakClient,
  path: string,
  body: unknown,
  maxMilli: number,
): Promise<void> {
  const { id, response } = send(client, path, body);
  const entry = client.book.open(id, maxMilli);
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

function storageCall(client: SoakClient, id = 1): object {
  return call(id, storageMethod, [
    `0x${client.random.int(1_000_000).toString(16).padStart(6, "0")}`,
  ]);
}

function nodeCall(client: SoakClient): Promise<void> {
  return paid(client, "/v1/ledger/rpc", storageCall(client), callMilli);
}

function nodeBatch(client: SoakClient): Promise<void> {
  const items = Array.from({ length: 1 + client.random.int(8) }, (_, id) =>
    storageCall(client, id),
  );
  return paid(client, "/v1/ledger/rpc", items, items.length * callMilli);
}

const toolCall = (id: number): object => ({
  jsonrpc: "2.0",
  id,
  method: "tools.call",
  params: { tool: "ledger_getHealth", params: {} },
});

function toolRpc(client: SoakClient): Promise<void> {
  return paid(client, "/rpc", toolCall(1), callMilli);
}

function toolArray(client: SoakClient): Promise<void> {
  const items = Array.from({ length: 1 + client.random.int(6) }, (_, id) => toolCall(id));
  return paid(client, "/rpc", items, items.length * callMilli);
}

function toolMcp(client: SoakClient): Promise<void> {
  return paid(client, "/mcp", { tool: "ledger_getHealth", input: {} }, callMilli);
}

function listModels(client: SoakClient): Promise<void> {
  return paid(client, "/v1/models", undefined, 0);
}

function chatBody(members: { readonly max_tokens: number }): object {
  return { model, messages: [{ role: "user", content: "A few words, please." }], ...members };
}

function maxChatMilli(body: object, tokens: number): number {
  return (JSON.stringify(body).length + templateTokens + tokens) * tokenMilli;
}

function chat(client: SoakClient, members: { readonly max_tokens: number }): Promise<void> {
  const body = chatBody(members);
  return paid(client, "/v1/chat/completions", body, maxChatMilli(body, members.max_tokens));
}

/** Leaves before the answer, during its head or during its words. */
async function leaveChat(client: SoakClient): Promise<void> {
  const body = chatBody({ max_tokens: 40, ...(client.random.int(3) > 0 ? streaming : {}) });
  const { id, request: sent, response } = send(client, "/v1/chat/completions", body);
  client.book.open(id, maxChatMilli(body, 40));
  void response.then((answer) => answer?.on("error", () => {}).resume());
  await sleep(client.random.int(150));
  sent.destroy();
}

async function readSlowly(client: SoakClient): Promise<void> {
  const body = chatBody({ max_tokens: longAnswer, ...streaming });
  const { id, response } = send(client, "/v1/chat/completions", body);
  client.book.open(id, maxChatMilli(body, longAnswer));
  const answer = await response;
  if (answer === undefined) return;
  answer.on("error", () => {});
  await sleep(500 + client.random.int(1_500));
  await read(answer);
}

async function openSession(
  client: SoakClient,
): Promise<Awaited<ReturnType<typeof connect>> | undefined> {
  try {
    return await connect({
      url: client.gateway.url,
      apiKey: client.gateway.sessionKey.key,
      network: "alpha",
      model,
      maxOutputTokens: encryptedTokens,
      allowSimulated: true,
      simulatedRoots: [client.workerRoot],
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

async function encryptedSession(client: SoakClient): Promise<void> {
  const session = await openSession(client);
  if (session === undefined) return;
  for (let turn = client.random.int(3); turn >= 0; turn--) {
    try {
      const answer = session.chat(encryptedChat);
      const [final] = await Promise.all([answer.final, drain(answer)]);
      client.book.sessionMilli.push(final.usedCUMilli);
    } catch {
      client.book.sessionsLeft++;
      break;
    }
  }
  await session.close();
}

async function drain(answer: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of answer);
}

async function leaveSession(client: SoakClient): Promise<void> {
  const session = await openSession(client);
  if (session === undefined) return;
  const answer = session.chat(encryptedChat);
  client.book.sessionsLeft++;
  answer.final.catch(() => {});
  drain(answer).catch(() => {});
  await sleep(client.random.int(100));
  await session.close();
}

function openSocket({ gateway }: ClientContext): Socket {
  const { hostname, port } = new URL(gateway.url);
  return connectSocket(Number(port), hostname)
    .on("error", () => {})
    .resume();
}

/** Sends a request of whose announced body only a part arrives. It must not be charged. */
async function unfinishedBody(client: SoakClient): Promise<void> {
  const id = `${client.name.replaceAll(" ", "-")}-${client.count}`;
  client.book.open(id, 0);
  using socket = disposable(openSocket(client));
  const head = [
    "POST /v1/chat/completions HTTP/1.1",
    "host: a",
    `authorization: Bearer ${client.gateway.key.key}`,
    `x-request-id: ${id}`,
    "content-type: application/json",
    `content-length: ${client.random.pick([200, 100_000])}`,
  ];
  socket.value.write(`${head.join("\r\n")}\r\n\r\n{"model":"`);
  await sleep(client.random.int(1_000));
}

const badProtocols = ["confidential.v1,,", "confidential.v1, confidential.v1", "none", "a b", ""];

/** Sends a handshake that must be refused, or leaves at once. */
async function badUpgrade(client: SoakClient): Promise<void> {
  using socket = disposable(openSocket(client));
  const head = [
    "GET /v1/confidential/stream HTTP/1.1",
    "host: a",
    `authorization: Bearer ${client.gateway.sessionKey.key}`,
    "connection: Upgrade",
    "upgrade: websocket",
    `sec-websocket-version: ${client.random.pick(["13", "13", "13", "12"])}`,
    `sec-websocket-key: ${client.random.pick(["dGhlIHNhbXBsZSBub25jZQ==", "short"])}`,
    `sec-websocket-protocol: ${client.random.pick(["confidential.v1", ...badProtocols])}`,
  ];
  socket.value.write(`${head.join("\r\n")}\r\n\r\n`);
  await sleep(client.random.int(200));
}

const malformed = [
  "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
  "POST /rpc HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
  "\x16\x03\x01\x02\x00\x01",
  "GET /v1/models HTTP/1.1\r\nhost: a\r\n\r\nGARBAGE\r\n\r\n",
  "POST /mcp HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\n{{{{",
];

async function malformedBytes(client: SoakClient): Promise<void> {
  using socket = disposable(openSocket(client));
  socket.value.write(client.random.pick(malformed), "latin1");
  await sleep(client.random.int(200));
}

function disposable(socket: Socket): Disposable & { readonly value: Socket } {
  return { value: socket, [Symbol.dispose]: () => void socket.destroy() };
}

/** Starts the requests that still run at SIGTERM: long answers, one unread, an unfinished body and a session. */
export function leaveRunning(context: ClientContext): void {
  const agent = new Agent({ keepAlive: false });
  const client = { ...context, name: "at the end", random: createRandom(1), agent, count: 0 };
  for (let n = 0; n < 4; n++) {
    const body = chatBody({ max_tokens: longAnswer, ...streaming });
    const { id, response } = send(client, "/v1/chat/completions", body);
    context.book.open(id, maxChatMilli(body, longAnswer));
    client.count++;
    void response.then((answer) => {
      answer?.on("error", () => {});
      if (n > 0) answer?.resume();
    });
  }
  void unfinishedBody({ ...client, name: "unfinished at the end" });
  void badUpgrade(client);
}
