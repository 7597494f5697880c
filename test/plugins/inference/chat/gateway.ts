/** A whole gateway with one scripted worker, for tests of the chat surface. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { request, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { join } from "node:path";
import type { UsageRow } from "../../../../plugins/billing/metering/charge-text.ts";
import { readUsage } from "../../../../plugins/billing/metering/read-usage.ts";
import type { Clock } from "../../../../src/plugin.ts";
import {
  startTestGateway,
  type TestGateway,
  type WantedKey,
} from "../../../../plugins/contracts/testing.ts";
import { dataOf } from "../networks/chat-events.ts";
import { hello } from "../networks/native-events.ts";
import { streamed, whole } from "../networks/worker-scripts.ts";
import { startWorker, type Script, type Worker } from "../networks/scripted-worker.ts";

export const model = "Test/Model-1";

/** 12 nano native tokens × 0.25 USD: 3 milli-CU per token. */
export const tokenMilli = 3;

export interface ChatOptions {
  readonly account?: WantedKey;
  readonly clock?: Clock;
  /** Additional members of the network `classic`, such as `idleMs: 50`. */
  readonly network?: string;
  /** Additional networks, indented by two spaces. */
  readonly networks?: string;
  readonly price?: string;
  readonly rate?: string;
  /** Additional lines of the pipeline, such as `plans: …`. */
  readonly settings?: string;
  /** Number of threads that serve (default 1). */
  readonly threads?: number;
  readonly isTraced?: boolean;
  readonly env?: Readonly<Record<string, string>>;
  readonly otherwise?: Script;
}

/** Reads `WORKER_URL`, and otherwise contains the lines of the shipped pipeline.yaml for inference. */
export function pipelineOf({
  network = "",
  price = "12",
  networks = "",
  rate = '"0.25"',
  settings = "",
  threads = 1,
  isTraced = false,
}: ChatOptions): string {
  return `
version: 1
server: { port: "\${PORT}", threads: ${threads}, drainSeconds: 5, drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
rate: ${rate}
${settings}
networks:
  classic: { kind: openai, url: "\${WORKER_URL}", price_per_token_nano: "${price}", ${network} }
${networks}
lists:
  edge: [request-id, { access-log: { file: access.log } }, authenticate, rate-limit]
  inference: [{ use: edge }, { authorize: { require: inference } }, meter]
  catalogue: [{ use: edge }, { authorize: { require: "platform:read" } }]
  messages-edge: [${isTraced ? "trace, " : ""}request-id, { access-log: { file: access.log } }, { authenticate: { headers: [x-api-key] } }, rate-limit]
  messages: [{ use: messages-edge }, { authorize: { require: inference } }, meter]
  count-tokens: [{ use: messages-edge }, { authorize: { require: "platform:read" } }]
unmatched: [request-id, rate-limit]
routes:
  - { path: /v1/chat/completions, methods: [POST], run: [{ use: inference }], to: chat }
  - { path: "/{network}/v1/chat/completions", methods: [POST], run: [{ use: inference }], to: chat }
  - { path: /v1/responses, methods: [POST], run: [{ use: inference }], to: responses }
  - { path: "/{network}/v1/responses", methods: [POST], run: [{ use: inference }], to: responses }
  - { path: /v1/messages, methods: [POST], run: [{ use: messages }], to: messages }
  - { path: "/{network}/v1/messages", methods: [POST], run: [{ use: messages }], to: messages }
  - { path: /v1/messages/count_tokens, methods: [POST], run: [{ use: count-tokens }], to: count-tokens }
  - { path: "/{network}/v1/messages/count_tokens", methods: [POST], run: [{ use: count-tokens }], to: count-tokens }
  - { path: /v1/embeddings, methods: [POST], run: [{ use: inference }], to: embeddings }
  - { path: "/{network}/v1/embeddings", methods: [POST], run: [{ use: inference }], to: embeddings }
  - { path: /v1/models, methods: [GET], run: [{ use: catalogue }], to: models }
  - { path: "/{network}/v1/models", methods: [GET], run: [{ use: catalogue }], to: models }
  - { path: "/v1/models/*", methods: [GET], run: [{ use: catalogue }], to: models }
  - { path: "/{network}/v1/models/*", methods: [GET], run: [{ use: catalogue }], to: models }
  - { path: /v1/confidential/workers, methods: [GET], run: [{ use: catalogue }], to: workers }
  - { path: "/{network}/v1/confidential/workers", methods: [GET], run: [{ use: catalogue }], to: workers }
`;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  // Tests read what they expect to be there, and fail where it is not.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly json: any;
}

export interface RequestOptions {
  readonly path?: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly key?: string;
}

export interface ChatGateway extends AsyncDisposable {
  readonly gateway: TestGateway;
  readonly worker: Worker;
  /** A chat request for the model with one short message. The given members are added or replace others. */
  ask(members?: object, options?: RequestOptions): Promise<Answer>;
  /** Sends any request. A body that is not text is sent as JSON. */
  send(body: unknown, options?: RequestOptions): Promise<Answer>;
  stream(members?: object, options?: RequestOptions): Promise<string[]>;
  /** A streamed answer from its head on. Nothing of its body has been read yet. */
  open(members?: object): Promise<IncomingMessage>;
  /** Stops the gateway. Returns the lines of its access log and its log, as text. */
  logged(): Promise<string>;
  charges(): UsageRow[];
  charged(count: number): Promise<UsageRow[]>;
  /** Returns the value of the metric whose line begins with this text. */
  metric(line: string): Promise<number | undefined>;
}

export function inRequestedShape(said: Parameters<typeof whole>[0]): Script {
  return (exchange) =>
    exchange.body["stream"] === true ? streamed(said)(exchange) : whole(said)(exchange);
}

/** Starts a gateway in front of this worker. The default export of a module in `SLUICE_TEST_CHAT` replaces it. */
export type StartChatGateway = (workerUrl: string, options: ChatOptions) => Promise<TestGateway>;

const startPlain: StartChatGateway = (workerUrl, options) =>
  startTestGateway({
    pipeline: pipelineOf(options),
    env: { WORKER_URL: workerUrl, LOG_LEVEL: "info", ...options.env },
    ...(options.clock !== undefined && { clock: options.clock }),
    ...(options.account !== undefined && { account: options.account }),
  });

async function readStarter(): Promise<StartChatGateway> {
  const module = process.env["SLUICE_TEST_CHAT"];
  if (module === undefined) return startPlain;
  return ((await import(module)) as { readonly default: StartChatGateway }).default;
}

export async function startChat(options: ChatOptions = {}): Promise<ChatGateway> {
  const worker = await startWorker({ otherwise: options.otherwise ?? inRequestedShape({}) });
  const gateway = await (await readStarter())(worker.url, options);
  const charges = (): UsageRow[] => [...readUsage(`${gateway.folder}/data`)];
  const send = (body: unknown, ask: RequestOptions = {}): Promise<Answer> =>
    sendTo(gateway, body, ask);
  return {
    gateway,
    worker,
    ask: (members = {}, ask = {}) => send(chatBody(members), ask),
    send,
    async stream(members = {}, ask = {}) {
      const answer = await send(chatBody({ stream: true, ...members }), ask);
      assert.equal(answer.status, 200, answer.text);
      return dataOf(answer.text);
    },
    async open(members = {}) {
      const sent = requestTo(gateway, {});
      sent.end(JSON.stringify(chatBody({ stream: true, ...members })));
      const [answer] = (await once(sent, "response")) as [IncomingMessage];
      return answer;
    },
    async logged() {
      await gateway.gateway.stop();
      const accesses = readFileSync(join(gateway.folder, "access.log"), "utf8");
      return `${accesses}\n${gateway.lines.join("\n")}`;
    },
    charges,
    async charged(count) {
      for (;;) {
        const rows = charges();
        if (rows.length >= count) return rows;
        await new Promise(setImmediate);
      }
    },
    async metric(line) {
      const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
      const found = text.split("\n").find((each) => each.startsWith(line));
      return found === undefined ? undefined : Number(found.slice(found.lastIndexOf(" ")));
    },
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]();
      await worker[Symbol.asyncDispose]();
    },
  };
}

/** A network that passes everything. */
export const everything = "passes: [tools, sampling, format, logprobs, images, reasoning]";

/** Networks whose workers get translated requests, and those whose workers have the API themselves. */
export function networksFor(api: "responses" | "messages") {
  return [
    ["translated", everything],
    ["native", `${everything}, speaks: [${api}]`],
  ] as const;
}

/** A gateway that is asked over another API than chat completions. */
export interface ApiGateway<Event> extends ChatGateway {
  create(members?: object, options?: RequestOptions): Promise<Answer>;
  events(members?: object, options?: RequestOptions): Promise<Event[]>;
  // oxlint-disable-next-line typescript/no-explicit-any -- as `Answer.json`
  lastBody(): any;
}

export async function startApi<Event>(
  path: string,
  bodyOf: (members: object) => object,
  eventsOf: (text: string) => Event[],
  options: ChatOptions,
): Promise<ApiGateway<Event>> {
  const chat = await startChat({ network: everything, otherwise: hello, ...options });
  const create: ApiGateway<Event>["create"] = (members = {}, ask = {}) =>
    chat.send(bodyOf(members), { path, ...ask });
  return {
    ...chat,
    create,
    async events(members = {}, ask = {}) {
      const answer = await create({ stream: true, ...members }, ask);
      assert.equal(answer.status, 200, answer.text);
      return eventsOf(answer.text);
    },
    lastBody: () => chat.worker.received.at(-1)?.body,
  };
}

export function chatBody(members: object = {}): object {
  return { model, messages: [{ role: "user", content: "Hi" }], ...members };
}

function requestTo({ url, key }: TestGateway, ask: RequestOptions): ReturnType<typeof request> {
  const { path = "/v1/chat/completions", method = "POST", headers = {} } = ask;
  return request(url + path, {
    method,
    agent: false,
    headers: {
      authorization: `Bearer ${ask.key ?? key}`,
      ...(method === "POST" && { "content-type": "application/json" }),
      ...headers,
    },
  });
}

async function sendTo(gateway: TestGateway, body: unknown, ask: RequestOptions): Promise<Answer> {
  const sent = requestTo(gateway, ask);
  const arrived = once(sent, "response");
  // A refusal may come before the whole body was sent, and the connection is closed then.
  sent.on("error", () => {});
  const isRaw = typeof body === "string" || body instanceof Uint8Array || body === undefined;
  sent.end(isRaw ? body : JSON.stringify(body));
  const [answer] = (await arrived) as [IncomingMessage];
  const text = await textOf(answer);
  const { statusCode: status = 0, headers } = answer;
  const isJson = headers["content-type"] === "application/json";
  return { status, headers, text, json: isJson ? JSON.parse(text) : undefined };
}

/** Reads everything up to the end. Throws if the connection breaks before the end. */
export async function textOf(answer: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of answer) pieces.push(piece as Buffer);
  return Buffer.concat(pieces).toString();
}

/** Returns the chunks of a stream without its `[DONE]`, which must be present. */
// oxlint-disable-next-line typescript/no-explicit-any -- as `Answer.json`
export function chunksOf(events: readonly string[]): any[] {
  assert.equal(events.at(-1), "[DONE]");
  return events.slice(0, -1).map((data) => JSON.parse(data));
}

export function assertChatError(
  answer: Answer,
  status: number,
  code: string,
  retryAfter = "5",
): void {
  assert.equal(answer.status, status, answer.text);
  const { error, ...rest } = answer.json;
  assert.deepEqual(rest, {});
  assert.deepEqual(Object.keys(error), ["message", "type", "code"]);
  assert.equal(error.code, code);
  assert.equal(error.type, status === 503 ? "internal_error" : "invalid_request_error");
  assert.equal(typeof error.message, "string");
  assert.equal(answer.headers["retry-after"], status === 503 ? retryAfter : undefined);
  assert.equal(answer.headers["x-used-cu-milli"], undefined);
  assert.ok(answer.headers["x-request-id"]);
}

export function assertRefused(answer: Answer, status: number, code: string): void {
  assert.equal(answer.status, status, answer.text);
  assert.equal(answer.json.error_code, code);
  assert.equal(typeof answer.json.error, "string");
}
