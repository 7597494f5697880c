/** A client of `ledger-ws`, which keeps what it receives until the test asks for it. */
import { once } from "node:events";
import { WebSocket, type ClientOptions } from "ws";

export interface WsClient extends AsyncDisposable {
  readonly socket: WebSocket;
  send(text: string): void;
  next(): Promise<string>;
  ask(text: string): Promise<string>;
  readonly closed: Promise<number>;
}

interface ConnectOptions extends ClientOptions {
  readonly key?: string;
  readonly protocols?: readonly string[];
}

/** Connects to an `http:` or `ws:` URL. Rejects with `Unexpected server response: STATUS` if the upgrade is refused. */
export async function connectWs(
  url: string,
  { key, protocols = [], ...options }: ConnectOptions = {},
): Promise<WsClient> {
  const headers = {
    ...options.headers,
    ...(key !== undefined && { authorization: `Bearer ${key}` }),
  };
  const address = url.replace(/^http/, "ws");
  const socket = new WebSocket(address, [...protocols], { ...options, headers });
  const received: string[] = [];
  const waiting: ((text: string) => void)[] = [];
  socket.on("message", (data, isBinary) => {
    const text = isBinary ? "a binary message" : (data as Buffer).toString();
    const first = waiting.shift();
    if (first === undefined) received.push(text);
    else first(text);
  });
  const closed = new Promise<number>((resolve) => socket.once("close", resolve));
  await once(socket, "open");
  const next = (): Promise<string> => {
    const first = received.shift();
    if (first !== undefined) return Promise.resolve(first);
    return Promise.race([
      new Promise<string>((resolve) => waiting.push(resolve)),
      closed.then((code) => `closed with ${code}`),
    ]);
  };
  return {
    socket,
    send: (text) => socket.send(text),
    next,
    ask(text) {
      socket.send(text);
      return next();
    },
    closed,
    async [Symbol.asyncDispose]() {
      socket.terminate();
      await closed;
    },
  };
}

export async function refusalOf(
  url: string,
  options: ConnectOptions = {},
): Promise<readonly [number | undefined, unknown]> {
  const { key, protocols = [], ...rest } = options;
  const headers = { ...rest.headers, ...(key !== undefined && { authorization: `Bearer ${key}` }) };
  const socket = new WebSocket(url.replace(/^http/, "ws"), [...protocols], { ...rest, headers });
  socket.on("error", () => {});
  const [, response] = (await once(socket, "unexpected-response")) as [
    unknown,
    AsyncIterable<Buffer> & { readonly statusCode?: number },
  ];
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  const body = JSON.parse(Buffer.concat(chunks).toString()) as { readonly error_code?: unknown };
  return [response.statusCode, body.error_code];
}
