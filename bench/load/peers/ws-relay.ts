/**
 * A bare relay for comparison. It forwards each message of `ws` to `ws` as it arrives, and checks, counts and delays
 * nothing. Prints its port. Its argument is the upstream.
 */
import type { AddressInfo } from "node:net";
import { WebSocket, WebSocketServer } from "ws";

const [url = ""] = process.argv.slice(2);
const server = new WebSocketServer({
  port: 0,
  host: "127.0.0.1",
  backlog: 4096,
  perMessageDeflate: false,
});
server.on("connection", (client, { headers }) => {
  const protocol = headers["sec-websocket-protocol"];
  const protocols = protocol === undefined ? [] : [protocol];
  const upstream = new WebSocket(url, protocols, { perMessageDeflate: false });
  client.pause();
  upstream.on("open", () => client.resume());
  client.on("message", (data, binary) => upstream.send(data, { binary }));
  upstream.on("message", (data, binary) => client.send(data, { binary }));
  client.on("close", () => upstream.close());
  upstream.on("close", () => client.close());
  client.on("error", () => upstream.terminate());
  upstream.on("error", () => client.terminate());
});
server.on("listening", () => {
  // A server that listens on a port has an AddressInfo.
  console.log((server.address() as AddressInfo).port);
});
