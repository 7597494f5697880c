/**
 * A bare relay with `ws`, for comparison: each client has a connection to the node, and every message is passed on
 * unchanged. A side that does not read makes the other one wait. It has no keys, charges, limits or checks.
 * Usage: `node pipe.ts <URL of the node>`.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { WebSocket, WebSocketServer } from "ws";

const maxUnsentBytes = 256 * 1024;
const url = process.argv[2] ?? "";

function pass(from: WebSocket, to: WebSocket): void {
  from.on("message", (data) => {
    to.send(data as Buffer, { binary: false }, () => {
      if (from.isPaused && to.bufferedAmount < maxUnsentBytes) from.resume();
    });
    if (to.bufferedAmount >= maxUnsentBytes) from.pause();
  });
  from.on("close", () => to.terminate());
  from.on("error", () => to.terminate());
}

const server = createServer();
const clients = new WebSocketServer({ server, perMessageDeflate: false });
clients.on("connection", (client) => {
  const node = new WebSocket(url, { perMessageDeflate: false });
  client.pause();
  node.once("open", () => client.resume());
  pass(client, node);
  pass(node, client);
});
server.listen(0, "127.0.0.1", () => console.log((server.address() as AddressInfo).port));
