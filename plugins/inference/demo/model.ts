/**
 * A small server with OpenAI's chat completions that echoes the last user message, one token every 20 ms. It supports
 * `model`, `messages`, `max_tokens`, `stream`, `stream_options.include_usage` and
 * `chat_template_kwargs.enable_thinking`. `GET /status` is the status document of a network.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { close, listen, readBody, systemClock } from "sluice-gateway/internal/module";
import { sendStream, sendWhole, type Pace } from "./chat-answer.ts";
import { fault, readChatRequest, type ChatFault } from "./chat-request.ts";
import { echo } from "./echo.ts";

export interface DemoModel {
  /** `http://host:port`, without `/v1/chat/completions`. */
  readonly url: string;
  readonly statusUrl: string;
  close(): Promise<void>;
}

export const demoModelId = "Demo/Echo-1";

const maxRequestBytes = 1024 * 1024;
/** 2026-01-01, in seconds since 1970. */
const created = 1_767_225_600;

const models = {
  object: "list",
  data: [{ id: demoModelId, object: "model", created, owned_by: "demo" }],
};
const status = {
  price_per_token_nano: "12",
  workers: [{ id: "demo-1", model: demoModelId, coefficient: 1000, state: "active" }],
};

/** Listens on any free port of 127.0.0.1. Rejects if it cannot listen. */
export async function startDemoModel({
  clock = systemClock,
  tokenMs = 20,
}: Partial<Pace> = {}): Promise<DemoModel> {
  const pace: Pace = { clock, tokenMs };
  const server = createServer((request, response) => void respond(request, response, pace));
  const url = await listen(server, 0, "127.0.0.1");
  return { url, statusUrl: `${url}/status`, close: () => close(server) };
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  pace: Pace,
): Promise<void> {
  const path = request.url?.split("?", 1)[0];
  if (path !== "/v1/chat/completions") {
    const document = path === "/v1/models" ? models : path === "/status" ? status : undefined;
    if (document === undefined) return refuse(response, fault(null, "Not found.", 404));
    if (request.method !== "GET") return refuseMethod(response, "GET");
    return send(response, 200, document);
  }
  if (request.method !== "POST") return refuseMethod(response, "POST");
  const body = await readBody(request, maxRequestBytes);
  if (body === "left" || response.destroyed) return;
  if (body === "too big") {
    response.setHeader("connection", "close");
    return refuse(response, fault(null, `The body has more than ${maxRequestBytes} bytes.`, 413));
  }
  const chatRequest = readChatRequest(body.toString(), demoModelId);
  if ("error" in chatRequest) return refuse(response, chatRequest);
  const chatAnswer = echo(chatRequest);
  if (chatRequest.stream) sendStream(response, demoModelId, chatAnswer, chatRequest, pace);
  else sendWhole(response, demoModelId, chatAnswer, pace);
}

function refuseMethod(response: ServerResponse, allow: "GET" | "POST"): void {
  response.setHeader("allow", allow);
  refuse(response, fault(null, `Only ${allow} is allowed here.`, 405));
}

function refuse(response: ServerResponse, { status: code, error }: ChatFault): void {
  send(response, code, { error });
}

function send(response: ServerResponse, code: number, document: object): void {
  const body = JSON.stringify(document);
  const length = Buffer.byteLength(body);
  response
    .writeHead(code, { "content-type": "application/json", "content-length": length })
    .end(body);
}
