/**
 * A bare relay of `chainHead_v1_follow` with `ws`, for comparison: one follow at the node, whose events are sent to all
 * clients. It has no keys, charges, pins, limits or checks. Usage: `node relay.ts <URL of the node>`.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { WebSocket, WebSocketServer } from "ws";

const node = new WebSocket(process.argv[2] ?? "", { perMessageDeflate: false });
const followers = new Map<WebSocket, string>();
/** The events that a new client gets. */
const first: string[] = [];

function send(client: WebSocket, id: string, event: string): void {
  client.send(
    `{"jsonrpc":"2.0","method":"chainHead_v1_followEvent","params":{"subscription":"${id}","result":${event}}}`,
  );
}

node.on("open", () =>
  node.send('{"jsonrpc":"2.0","id":1,"method":"chainHead_v1_follow","params":[true]}'),
);
node.on("message", (data) => {
  const event = /"result":(\{.*\})\}\}$/.exec((data as Buffer).toString())?.[1];
  if (event === undefined) return;
  if (first.length < 2) first.push(event);
  for (const [client, id] of followers) send(client, id, event);
});

const server = createServer();
const clients = new WebSocketServer({ server, perMessageDeflate: false });
clients.on("connection", (client) => {
  client.on("close", () => followers.delete(client));
  client.on("message", (data) => {
    const { id } = JSON.parse((data as Buffer).toString()) as { id: number };
    const subscription = String(followers.size);
    followers.set(client, subscription);
    client.send(`{"jsonrpc":"2.0","id":${id},"result":"${subscription}"}`);
    for (const event of first) send(client, subscription, event);
  });
});
server.listen(0, "127.0.0.1", () => console.log((server.address() as AddressInfo).port));
