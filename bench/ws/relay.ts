/**
 * A bare relay of a subscription with `ws`, for comparison: one subscription at the node, whose notifications are sent to
 * all clients. It has no keys, charges, pins, limits or checks.
 * Usage: `node relay.ts <URL of the node> <name in node.ts>`.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { WebSocket, WebSocketServer } from "ws";
import { kinds } from "./node.ts";

const [, , url = "", name = ""] = process.argv;
const kind = kinds[name];
if (kind === undefined) throw new Error(`unknown subscription ${name}`);
const { request, notification, firstNotifications } = kind;

const node = new WebSocket(url, { perMessageDeflate: false });
const subscribers = new Map<WebSocket, string>();
const first: string[] = [];

function send(client: WebSocket, id: string, result: string): void {
  client.send(
    `{"jsonrpc":"2.0","method":"${notification}","params":{"subscription":"${id}","result":${result}}}`,
  );
}

node.on("open", () => node.send(request));
node.on("message", (data) => {
  const result = /"result":(\{.*\})\}\}$/.exec((data as Buffer).toString())?.[1];
  if (result === undefined) return;
  if (first.length < firstNotifications) first.push(result);
  for (const [client, id] of subscribers) send(client, id, result);
});

const server = createServer();
const clients = new WebSocketServer({ server, perMessageDeflate: false });
clients.on("connection", (client) => {
  client.on("close", () => subscribers.delete(client));
  client.on("message", (data) => {
    const { id } = JSON.parse((data as Buffer).toString()) as { id: number };
    const subscription = String(subscribers.size);
    subscribers.set(client, subscription);
    client.send(`{"jsonrpc":"2.0","id":${id},"result":"${subscription}"}`);
    for (const result of first) send(client, subscription, result);
  });
});
server.listen(0, "127.0.0.1", () => console.log((server.address() as AddressInfo).port));
