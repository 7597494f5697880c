import { connect, type Socket } from "node:net";
import type { ClientContext, SoakClient } from "./client.ts";
import { sleep } from "./random.ts";

function openSocket({ gateway }: ClientContext): Socket {
  const { hostname, port } = new URL(gateway.url);
  return connect(Number(port), hostname)
    .on("error", () => {})
    .resume();
}

/** Sends a request of whose announced body only a part arrives. It must not be charged. */
export async function unfinishedBody(client: SoakClient): Promise<void> {
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
export async function badUpgrade(client: SoakClient): Promise<void> {
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

export async function malformedBytes(client: SoakClient): Promise<void> {
  using socket = disposable(openSocket(client));
  socket.value.write(client.random.pick(malformed), "latin1");
  await sleep(client.random.int(200));
}

function disposable(socket: Socket): Disposable & { readonly value: Socket } {
  return { value: socket, [Symbol.dispose]: () => void socket.destroy() };
}
