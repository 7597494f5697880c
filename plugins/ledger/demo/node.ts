/**
 * The demo node: it replays the recorded answers of a real runtime, over HTTP and WebSocket on one port. It accepts no
 * extrinsics, and its head never moves. README.md lists every difference from a real node.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { close, listen, readBody } from "sluice-gateway/internal/module";
import { WebSocketServer } from "ws";
import { openChain, type RecordedChain } from "./chain.ts";
import { answerBody } from "./json-rpc.ts";
import type { Method, Notify } from "./method.ts";
import { demoMethods } from "./methods.ts";
import { readRecording } from "./recording.ts";
import { chainHeadMethods, subscriptionMethods } from "./subscriptions.ts";

export interface DemoNode {
  /** `http://host:port`. The same address accepts WebSockets. */
  readonly url: string;
  close(): Promise<void>;
}

/** The default limit of a Substrate node. */
const requestBytes = 15 * 1024 * 1024;
const jsonType = "application/json; charset=utf-8";
const textType = "text/plain";
const tooBig = JSON.stringify({
  jsonrpc: "2.0",
  id: null,
  error: {
    code: -32007,
    message: "Request is too big",
    data: `Exceeded max limit of ${requestBytes}`,
  },
});

interface DemoOptions {
  readonly chain?: RecordedChain;
  readonly methods?: ReadonlyMap<string, Method>;
}

export async function startDemoNode({
  chain = openChain(readRecording()),
  methods = demoMethods(chain),
}: DemoOptions = {}): Promise<DemoNode> {
  const server = createServer((request, response) => {
    void respond(request, response, methods);
  });
  // A node never closes idle connections.
  server.keepAliveTimeout = 0;
  const sockets = new WebSocketServer({ noServer: true, maxPayload: requestBytes });
  server.on("upgrade", (request, socket, head) => {
    sockets.handleUpgrade(request, socket, head, (client) => sockets.emit("connection", client));
  });
  sockets.on("connection", (socket) => {
    // A broken connection closes itself, so its error needs no handling.
    socket.on("error", () => {});
    const notifications: string[] = [];
    const notify: Notify = (method, subscription, result) => {
      const params = { subscription, result };
      notifications.push(JSON.stringify({ jsonrpc: "2.0", method, params }));
    };
    const all = new Map([
      ...methods,
      ...Object.entries(subscriptionMethods(methods, notify)),
      ...Object.entries(chainHeadMethods(chain, methods, notify)),
    ]);
    socket.on("message", (data) => {
      // `ws` passes a Buffer unless its binaryType is changed.
      const { body } = answerBody(all, (data as Buffer).toString());
      if (body !== "") socket.send(body);
      for (const notification of notifications.splice(0)) socket.send(notification);
    });
  });

  const url = await listen(server, 0, "127.0.0.1");
  return {
    url,
    async close() {
      for (const socket of sockets.clients) socket.terminate();
      sockets.close();
      await close(server);
    },
  };
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  methods: ReadonlyMap<string, Method>,
): Promise<void> {
  const send = (status: number, type: string, body: string) => {
    const length = Buffer.byteLength(body);
    response.writeHead(status, { "content-type": type, "content-length": length }).end(body);
  };
  if (request.method !== "POST") {
    return send(405, textType, "Used HTTP Method is not allowed. POST is required\n");
  }
  const type = request.headers["content-type"]?.replaceAll(" ", "").toLowerCase() ?? "";
  if (!/^application\/json(?:-rpc)?(?:;charset=utf-8)?$/.test(type)) {
    return send(415, textType, "Content-Type: application/json is required\n");
  }
  const body = await readBody(request, requestBytes);
  if (body === "left") return;
  if (body === "too big") {
    response.setHeader("connection", "close");
    return send(413, jsonType, tooBig);
  }
  const { status, body: text } = answerBody(methods, body.toString());
  send(status, jsonType, text);
}
