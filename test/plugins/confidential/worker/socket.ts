import { once } from "node:events";
import type { TestContext } from "node:test";
import { WebSocket } from "ws";
import { workerSubprotocol } from "../../../../plugins/confidential/protocol/hello.ts";
import { eventQueue, type Wire } from "../enclave/client.ts";

export interface WorkerSocket extends Wire {
  readonly webSocket: WebSocket;
}

export interface SocketOptions {
  readonly token?: string;
  readonly protocols?: readonly string[];
  readonly origin?: string;
  /** True if pings are answered. Default: as in ws. */
  readonly autoPong?: boolean;
}

/** Opens the WebSocket. Rejects with the server's answer if it refuses the upgrade. */
export async function openSocket(
  t: TestContext,
  url: string,
  { token, protocols = [workerSubprotocol], origin, autoPong = true }: SocketOptions = {},
): Promise<WorkerSocket> {
  const headers = {
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
    ...(origin !== undefined && { origin }),
  };
  const options = { headers, autoPong, perMessageDeflate: false };
  const webSocket = new WebSocket(url, [...protocols], options);
  t.after(() => webSocket.terminate());
  const queue = eventQueue();
  let error: string | undefined;
  webSocket.on("message", (data: Buffer, isBinary) => {
    if (isBinary) return queue.put({ kind: "binary", frame: Uint8Array.from(data) });
    const text = data.toString();
    const frame = JSON.parse(text) as { readonly type: string; readonly code?: string };
    if (frame.type === "error") error = frame.code;
    else queue.put({ kind: "text", text });
  });
  webSocket.on("close", (code) => queue.put({ kind: "closed", code, error }));
  webSocket.on("error", () => {});
  await once(webSocket, "open");
  return {
    webSocket,
    text: (bytes) => webSocket.send(Buffer.from(bytes).toString()),
    binary: (frame) => webSocket.send(frame),
    next: () => queue.next(),
  };
}
