/** Limits WebSocket messages that are still arriving. `ws` keeps the fragments of a message without a time limit. */
import type { Socket } from "node:net";
import type { WebSocket } from "ws";
import type { Clock, Connection } from "../plugin.ts";
import { arrivalGraceMs, arrivalWindowMs, minArrivalBytes } from "./arrival-rate.ts";
import type { HeldBytes, HeldPart } from "../memory/held-bytes.ts";

/** A message that gains less than `minArrivalBytes` within this time is too slow. */
const paceMs = arrivalGraceMs + arrivalWindowMs;
const sweepMs = 1_000;
/** RFC 6455 section 5.2: size of the head of a client's short frame, including the mask. */
const controlHeadBytes = 6;

export class MessageWatch implements Disposable {
  readonly #clock: Clock;
  readonly #held: HeldBytes;
  /** One per connection, oldest first. */
  readonly #arriving = new Set<ArrivingMessage>();
  readonly #timer: Disposable;

  constructor(clock: Clock, held: HeldBytes) {
    this.#clock = clock;
    this.#held = held;
    this.#timer = clock.every(sweepMs, () => this.#sweep());
  }

  add(caller: string, connection: Connection, webSocket: WebSocket, socket: Socket): void {
    const held = this.#held.hold(caller, "message", () => this.#refuse(arriving));
    const now = this.#clock.monotonic();
    const arriving = new ArrivingMessage(connection, webSocket, socket, held, now);
    this.#arriving.add(arriving);
    // Before the surface counts the whole message, so that no byte counts twice.
    webSocket.prependListener("message", () => arriving.completed());
    webSocket.on("ping", (data) => arriving.skip(data.length));
    webSocket.on("pong", (data) => arriving.skip(data.length));
    webSocket.on("close", () => this.#remove(arriving));
  }

  [Symbol.dispose](): void {
    this.#timer[Symbol.dispose]();
  }

  #sweep(): void {
    const now = this.#clock.monotonic();
    for (const arriving of this.#arriving) arriving.held.resize(0);
    for (const arriving of this.#arriving) {
      if (arriving.isTooSlow(now)) this.#close(arriving, 1008, "the message arrived too slowly");
      else if (!arriving.held.resize(arriving.bytes)) this.#refuse(arriving);
    }
  }

  #refuse(arriving: ArrivingMessage): void {
    this.#close(arriving, 1013, "too many unfinished messages");
  }

  #close(arriving: ArrivingMessage, code: number, reason: string): void {
    this.#remove(arriving);
    arriving.connection.close(code, reason);
  }

  #remove(arriving: ArrivingMessage): void {
    this.#arriving.delete(arriving);
    arriving.held[Symbol.dispose]();
  }
}

/**
 * The size of a message is the number of bytes that the socket has received since the last complete one, without
 * control frames, which may arrive between its fragments. It may be too small by up to one read of the socket.
 */
class ArrivingMessage {
  readonly connection: Connection;
  readonly held: HeldPart;
  readonly #webSocket: WebSocket;
  readonly #socket: Socket;
  /** Bytes received up to the end of the last complete message, plus the control frames since then. */
  #startBytes: number;
  #paceBytes: number;
  #paceAt: number;

  constructor(
    connection: Connection,
    webSocket: WebSocket,
    socket: Socket,
    held: HeldPart,
    now: number,
  ) {
    this.connection = connection;
    this.held = held;
    this.#webSocket = webSocket;
    this.#socket = socket;
    this.#startBytes = socket.bytesRead;
    this.#paceBytes = socket.bytesRead;
    this.#paceAt = now;
  }

  get bytes(): number {
    return this.#socket.bytesRead - this.#startBytes;
  }

  completed(): void {
    this.held.resize(0);
    this.#startBytes = this.#socket.bytesRead;
  }

  skip(controlBytes: number): void {
    const after = this.#startBytes + controlHeadBytes + controlBytes;
    this.#startBytes = Math.min(after, this.#socket.bytesRead);
  }

  isTooSlow(now: number): boolean {
    const { bytesRead } = this.#socket;
    // A paused connection waits for its surface and not for the client.
    const isWaited = this.bytes > 0 && !this.#webSocket.isPaused;
    if (!isWaited || bytesRead - this.#paceBytes >= minArrivalBytes) {
      this.#paceBytes = bytesRead;
      this.#paceAt = now;
    }
    return now - this.#paceAt >= paceMs;
  }
}
