import { validateHeaderName, validateHeaderValue } from "node:http";
import type { Socket } from "node:net";
import type { ClientResponse, ResponseOwner } from "../../message/client-response.ts";
import { writeChunk, writePlain } from "../chunk-frame.ts";
import { responseHead, type BodyFraming } from "./response-head.ts";

/** Up to this size, copying the body after the head costs less than two writes. */
const maxCopiedBytes = 8 * 1024;

export interface ResponseConnection {
  readonly socket: Socket;
  readonly keepAliveSeconds: number;
  /** Callback for the write of the last byte, which ends the answer. All answers share one function. */
  readonly flushed: (error?: Error | null) => void;
}

export class FastResponse implements ClientResponse {
  owner: ResponseOwner | undefined = undefined;
  shouldKeepAlive: boolean;
  headersSent = false;
  writableFinished = false;
  onDrain: ClientResponse["onDrain"] = undefined;
  onHalfClose: (() => void) | undefined = undefined;
  readonly #connection: ResponseConnection;
  #head = "";
  #framing: BodyFraming = "none";
  #done: (() => void) | undefined = undefined;

  constructor(connection: ResponseConnection, shouldKeepAlive: boolean) {
    this.#connection = connection;
    this.shouldKeepAlive = shouldKeepAlive;
  }

  get writableLength(): number {
    return this.#connection.socket.writableLength;
  }

  begin(owner: ResponseOwner): void {
    this.owner = owner;
  }

  writeContinue(): void {
    this.#connection.socket.write("HTTP/1.1 100 Continue\r\n\r\n", "latin1");
  }

  writeEarlyHints(hints: Record<string, string | string[]>): void {
    let text = "HTTP/1.1 103 Early Hints\r\n";
    for (const [name, given] of Object.entries(hints)) {
      text += fieldLine(name, Array.isArray(given) ? given.join(", ") : given);
    }
    this.#connection.socket.write(`${text}\r\n`, "latin1");
  }

  writeHead(status: number, fields: readonly string[] = []): void {
    if (this.headersSent) throw new Error("the response head is already written");
    const { keepAliveSeconds } = this.#connection;
    const head = responseHead(status, fields, this.shouldKeepAlive ? keepAliveSeconds : undefined);
    this.#head = head.text;
    this.#framing = head.framing;
    this.shouldKeepAlive = head.keepsAlive;
    this.headersSent = true;
  }

  end(body: string | Uint8Array, encoding: "utf8" | "latin1"): void {
    if (this.#framing === "none") body = "";
    if (this.#framing === "chunked") {
      const last = typeof body === "string" ? Buffer.from(body, encoding) : body;
      return this.endChunks(last, undefined, () => {});
    }
    const { socket, flushed } = this.#connection;
    const head = this.#takeHead();
    if (typeof body === "string" && (encoding === "latin1" || body === "")) {
      socket.write(head + body, "latin1", flushed);
    } else if (typeof body !== "string" && body.length <= maxCopiedBytes) {
      const whole = Buffer.allocUnsafe(head.length + body.length);
      whole.write(head, 0, "latin1");
      whole.set(body, head.length);
      socket.write(whole, flushed);
    } else {
      socket.cork();
      socket.write(head, "latin1");
      if (typeof body === "string") socket.write(body, encoding, flushed);
      else socket.write(body, flushed);
      socket.uncork();
    }
  }

  flushHeaders(): void {
    const head = this.#takeHead();
    if (head !== "") this.#connection.socket.write(head, "latin1");
  }

  writeChunk(chunk: Uint8Array | string, length: number): boolean {
    const { socket } = this.#connection;
    if (this.#head === "") return this.#write(chunk, length);
    socket.cork();
    this.flushHeaders();
    const room = this.#write(chunk, length);
    socket.uncork();
    return room;
  }

  endChunks(
    last: Uint8Array | undefined,
    trailers: [string, string][] | undefined,
    done: () => void,
  ): void {
    const { socket, flushed } = this.#connection;
    const fields = (trailers ?? []).map(([name, value]) => fieldLine(name, value));
    const end = this.#framing === "chunked" ? `0\r\n${fields.join("")}\r\n` : "";
    this.#done = done;
    socket.cork();
    this.flushHeaders();
    if (last !== undefined && last.length > 0) this.#write(last, last.length);
    socket.write(end, "latin1", flushed);
    socket.uncork();
  }

  destroy(): void {
    this.#connection.socket.destroy();
  }

  /** Called once by the connection. `isComplete`: the whole response was handed to the kernel. */
  onClose(isComplete: boolean): void {
    this.writableFinished = isComplete;
    this.owner?.onClose(isComplete);
    this.#done?.();
  }

  #takeHead(): string {
    const head = this.#head;
    this.#head = "";
    return head;
  }

  #write(chunk: Uint8Array | string, length: number): boolean {
    const { socket } = this.#connection;
    if (this.#framing === "none") return true;
    const write = this.#framing === "chunked" ? writeChunk : writePlain;
    return write(socket, chunk, length);
  }
}

/** Throws if the text would be more than one field. */
function fieldLine(name: string, value: string): string {
  validateHeaderName(name);
  validateHeaderValue(name, value);
  return `${name}: ${value}\r\n`;
}
