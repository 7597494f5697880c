/** Finds out whether the other end of a WebSocket still exists. */
import type { WebSocket } from "ws";

/** Interval of pings (confidential-stream.md section 1.1). */
export const pingMs = 20_000;

export class Liveness {
  readonly #webSocket: Pick<WebSocket, "on" | "ping">;
  readonly #maxUnanswered: number;
  #unanswered = 0;

  /** `maxUnanswered`: number of pings in a row that the peer may leave unanswered. */
  constructor(webSocket: Pick<WebSocket, "on" | "ping">, maxUnanswered = 1) {
    this.#webSocket = webSocket;
    this.#maxUnanswered = maxUnanswered;
    webSocket.on("pong", () => this.confirm());
  }

  /** Called when something has arrived from the peer. */
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
