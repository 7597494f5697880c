/** Requests on a connection of its own, so that the kernel gives each client to one of the threads. */
import { once } from "node:events";
import { connect } from "node:net";

export interface Answer {
  readonly status: number;
  readonly requestId: string;
}

/** Sends GET requests one after the other, until `answered` returns false or the server closes the connection. */
export async function askWith(
  url: string,
  key: string,
  answered: (answer: Answer) => boolean,
  nextId?: () => string,
): Promise<void> {
  const { hostname, port, pathname } = new URL(url);
  const socket = connect(Number(port), hostname).setEncoding("utf8");
  await once(socket, "connect");
  const closed = new Promise<void>((resolve) => {
    // The process may be killed.
    socket.on("error", () => {}).on("close", () => resolve());
  });
  const next = (): void => {
    const id = nextId === undefined ? "" : `x-request-id: ${nextId()}\r\n`;
    socket.write(
      `GET ${pathname} HTTP/1.1\r\nhost: x\r\n${id}authorization: Bearer ${key}\r\n\r\n`,
    );
  };
  let text = "";
  socket.on("data", (chunk: string) => {
    text += chunk;
    const end = text.indexOf("\r\n\r\n") + 4;
    const head = text.slice(0, end);
    const length = Number(/^content-length: (\d+)/im.exec(head)?.[1]);
    if (end < 4 || text.length < end + length) return;
    const requestId = /^x-request-id: (\S+)/im.exec(head)?.[1] ?? "";
    text = "";
    if (answered({ status: Number(head.slice(9, 12)), requestId })) next();
    else socket.destroy();
  });
  next();
  await closed;
}
