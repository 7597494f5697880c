/** JSON-RPC over a WebSocket to a gateway, whose answers have the member `proof`. */
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";

/** Nothing of the gateway's answer is verified. */
export interface RawAnswer {
  readonly result: unknown;
  readonly proof: Readonly<Record<string, unknown>>;
}

export class RpcError extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

export interface Notification {
  readonly method: string;
  readonly params: { readonly subscription: unknown; readonly result: unknown };
}

export interface SocketListener {
  onNotification(notification: Notification): void;
  onOpen(): void;
  onClose(): void;
}

/** See `ledger-ws`. The second one asks for proofs, because browsers cannot send headers. */
const subprotocols = ["ledger.v1", "ledger.proof.return"];

interface Waiting {
  readonly resolve: (answer: RawAnswer) => void;
  readonly reject: (error: RpcError) => void;
}

export class RpcSocket {
  readonly #url: string;
  readonly #listener: SocketListener;
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;
  #socket: Promise<WebSocket> | undefined;

  constructor(url: string, listener: SocketListener) {
    this.#url = url;
    this.#listener = listener;
  }

  /** Rejects with an RpcError. */
  open(): Promise<WebSocket> {
    return (this.#socket ??= this.#open());
  }

  /** Rejects with an RpcError. */
  async call(method: string, params: readonly unknown[]): Promise<RawAnswer> {
    const socket = await this.open();
    const id = ++this.#lastId;
    return await new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  close(): void {
    const socket = this.#socket;
    // A WebSocket that could not be opened is closed already.
    void socket?.then((open) => open.close()).catch(() => {});
    this.#closed(socket);
  }

  #open(): Promise<WebSocket> {
    const opening = new Promise<WebSocket>((resolve, reject) => {
      const socket = new WebSocket(this.#url, subprotocols);
      socket.addEventListener("open", () => {
        resolve(socket);
        // It may have been closed meanwhile.
        if (this.#socket === opening) this.#listener.onOpen();
      });
      socket.addEventListener("message", ({ data }) => this.#onMessage(data));
      socket.addEventListener("close", () => {
        reject(closed());
        this.#closed(opening);
      });
    });
    return opening;
  }

  #closed(socket: Promise<WebSocket> | undefined): void {
    if (socket === undefined || this.#socket !== socket) return;
    this.#socket = undefined;
    for (const { reject } of this.#waiting.values()) reject(closed());
    this.#waiting.clear();
    this.#listener.onClose();
  }

  #onMessage(data: unknown): void {
    const message = readMessage(data);
    if (!isObject(message)) return;
    const { id, method, params, result, error, proof } = message;
    if (typeof method === "string" && isObject(params)) {
      const { subscription, result: notified } = params;
      this.#listener.onNotification({ method, params: { subscription, result: notified } });
    }
    const waiting = this.#waiting.get(Number(id));
    if (id === undefined || waiting === undefined) return;
    this.#waiting.delete(Number(id));
    if (isObject(error))
      waiting.reject(new RpcError(Number(error["code"]), String(error["message"]), error["data"]));
    else waiting.resolve({ result, proof: isObject(proof) ? proof : {} });
  }
}

function closed(): RpcError {
  return new RpcError(-32603, "the connection to the gateway is closed");
}

function readMessage(data: unknown): unknown {
  return typeof data === "string" ? parseOrUndefined(data) : undefined;
}
