/** Interval of pings (confidential-stream.md section 1.1). */
export const pingMs = 20_000;

export interface PingableSocket {
  on(event: "pong", listener: () => void): unknown;
  ping(): void;
}

export class Liveness {
  readonly #webSocket: PingableSocket;
  readonly #maxUnanswered: number;
  #unanswered = 0;

  /** `maxUnanswered`: number of pings in a row that the peer may leave unanswered. */
  constructor(webSocket: PingableSocket, maxUnanswered = 1) {
    this.#webSocket = webSocket;
    this.#maxUnanswered = maxUnanswered;
    webSocket.on("pong", () => this.confirm());
  }

  confirm(): void {
    this.#unanswered = 0;
  }

  /** Sends a ping, or returns false if the peer is gone. Call it every `pingMs`. */
  ping(): boolean {
    if (this.#unanswered === this.#maxUnanswered) return false;
    this.#unanswered++;
    this.#webSocket.ping();
    return true;
  }
}
