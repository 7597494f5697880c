/** A node and a model server that work for some seconds, then fail for a while, and then work again. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createRandom, sleep, type Random } from "./random.ts";

export const model = "Soak/Echo-1";
export const storageMethod = "state_getStorageHash";

export interface Upstream extends AsyncDisposable {
  readonly url: string;
  /** Makes the server work until it is disposed of. */
  calm(): void;
}

type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void;
type Mood = "well" | "away" | string;

/** Duration of a mood: this time plus up to the same time. */
const wellMs = 4_000;
const badMs = 1_200;

/** `bad`: the answers in each mood. In the mood `away` the port is closed. */
async function startFlapping(
  well: Answer,
  bad: Readonly<Record<string, Answer>>,
  random: Random,
): Promise<Upstream> {
  let mood: Mood = "well";
  let isCalm = false;
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8");
    request.on("error", () => {});
    response.on("error", () => {});
    request.on("data", (chunk: string) => (body += chunk));
    request.on("end", () => (bad[mood] ?? well)(request, response, body));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  // A listening TCP server has an AddressInfo.
  const { port } = server.address() as AddressInfo;
  const moods: readonly Mood[] = ["away", ...Object.keys(bad)];
  const flap = async (): Promise<void> => {
    while (!isCalm) {
      await sleep(wellMs + random.int(wellMs));
      if (isCalm) return;
      mood = random.pick(moods);
      if (mood === "away") await close(server);
      await sleep(badMs + random.int(badMs));
      if (mood === "away") {
        server.listen(port, "127.0.0.1");
        await once(server, "listening");
      }
      mood = "well";
    }
  };
  void flap();
  return {
    url: `http://127.0.0.1:${port}`,
    calm: () => (isCalm = true),
    async [Symbol.asyncDispose]() {
      isCalm = true;
      if (server.listening) await close(server);
    },
  };
}

async function close(server: Server): Promise<void> {
  const closed = once(server, "close");
  server.close();
  server.closeAllConnections();
  await closed;
}

function sendJson(response: ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

interface RpcCall {
  readonly id: unknown;
  readonly method: string;
  readonly params?: readonly unknown[];
}

const head = 100;
const hashOf = (height: number): string => `0x${height.toString(16).padStart(64, "0")}`;
const results: Readonly<Record<string, (params: readonly unknown[]) => unknown>> = {
  system_chain: () => "Soak",
  system_version: () => "1.0.0",
  system_health: () => ({ peers: 3, isSyncing: false, shouldHavePeers: true }),
  chain_getBlockHash: ([height]) => hashOf(typeof height === "number" ? height : head),
  chain_getFinalizedHead: () => hashOf(head),
  chain_getHeader: ([at]) => ({ number: `0x${Number(at ?? head).toString(16)}` }),
  state_getRuntimeVersion: () => ({ specName: "soak", specVersion: 1 }),
  rpc_methods: () => ({ methods: [storageMethod] }),
  [storageMethod]: ([key]) => `0x${"ab".repeat(32)}${String(key).slice(2)}`,
};

function answerCall({ id, method, params }: RpcCall): object {
  const result = results[method]?.(params ?? []);
  return result === undefined
    ? { jsonrpc: "2.0", id, error: { code: -32601, message: "Method not found" } }
    : { jsonrpc: "2.0", id, result };
}

export function startNode(seed: number): Promise<Upstream> {
  const well: Answer = (_, response, body) => {
    const asked = JSON.parse(body) as RpcCall | readonly RpcCall[];
    sendJson(response, "method" in asked ? answerCall(asked) : asked.map(answerCall));
  };
  const bad = {
    failing: (_request, response) => sendJson(response, { error: "no" }, 500),
    nonsense: (_request, response) => response.end("<html>"),
    cutting: (_request, response) => response.destroy(),
    slow: (request, response, body) => void setTimeout(well, 300, request, response, body),
  } satisfies Record<string, Answer>;
  return startFlapping(well, bad, createRandom(seed));
}

interface ChatBody {
  readonly stream?: boolean;
  readonly max_tokens?: number;
}

const promptTokens = 9;

export function startModel(seed: number): Promise<Upstream> {
  const random = createRandom(seed);
  const answer =
    (how: { readonly usage?: object | null; readonly cutAfter?: number }): Answer =>
    ({ method }, response, text) => {
      if (method === "GET") {
        return sendJson(response, { object: "list", data: [{ id: model, object: "model" }] });
      }
      const { stream = false, max_tokens: words = 10 } = JSON.parse(text) as ChatBody;
      const usage =
        how.usage === undefined
          ? { prompt_tokens: promptTokens, completion_tokens: words }
          : how.usage;
      if (stream) void streamWords(response, words, usage, how.cutAfter);
      else if (how.cutAfter !== undefined) response.destroy();
      else sendJson(response, wholeAnswer(words, usage));
    };
  const bad = {
    failing: (_request, response) => sendJson(response, { error: "no" }, 500),
    nonsense: (_request, response) => response.end("{"),
    breaking: (request, response, text) =>
      answer({ cutAfter: random.int(8) })(request, response, text),
    silentAboutUsage: answer({ usage: null }),
    lying: answer({ usage: { prompt_tokens: 1_000_000_000, completion_tokens: 1_000_000_000 } }),
  } satisfies Record<string, Answer>;
  return startFlapping(answer({}), bad, createRandom(seed + 1));
}

function wholeAnswer(words: number, usage: object | null): object {
  const message = { role: "assistant", content: "word ".repeat(words) };
  const choices = [{ index: 0, message, finish_reason: "stop" }];
  return {
    id: "soak",
    object: "chat.completion",
    model,
    choices,
    ...(usage !== null && { usage }),
  };
}

async function streamWords(
  response: ServerResponse,
  words: number,
  usage: object | null,
  cutAfter = Infinity,
): Promise<void> {
  const event = (value: object): void => void response.write(`data: ${JSON.stringify(value)}\n\n`);
  const chunk = (delta: object, reason: string | null): object => ({
    id: "soak",
    object: "chat.completion.chunk",
    model,
    choices: [{ index: 0, delta, finish_reason: reason }],
  });
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (let word = 0; word < words; word++) {
    if (response.destroyed) return;
    if (word >= cutAfter) return void response.destroy();
    event(chunk({ content: "word " }, null));
    await sleep(4);
  }
  event(chunk({}, "stop"));
  if (usage !== null) event({ ...chunk({}, null), choices: [], usage });
  response.end("data: [DONE]\n\n");
}
