/**
 * An upstream with its connections: keep-alive pools to each of its urls, taken in turn, those that just failed left
 * out for a while. Requests that wait for a connection are counted and given up after `connectMs`.
 */
import { connect } from "node:net";
import type { Pool } from "undici";
import type { Clock, Upstream } from "../../plugin.ts";
import { LinkedList, type Linked } from "../linked-list.ts";
import { undici } from "./undici.ts";

/** One url of an upstream. */
export interface Member {
  readonly pool: Pool;
  /** Path of the url without a slash at its end; stands before every path that is sent. */
  readonly basePath: string;
  readonly url: URL;
  /** Monotonic milliseconds until which the others come first. */
  restsUntil: number;
  /** The last attempt to connect failed. */
  isUnreachable: boolean;
}

/** A request that waits for a connection. */
export interface Waiting extends Linked<Waiting> {
  /** Monotonic milliseconds. */
  waitingSince: number;
  /** Its time is over. Called once, after it was taken off the list. */
  expired(): void;
}

/** As long as a client is told to wait (`Retry-After` of GATEWAY_SERVICE_UNAVAILABLE). */
const restMs = 5_000;

/** More requests than this waiting for connections are refused at once: their answers would come too late anyway. */
const waitingLimit = 1_000;

export class UpstreamPools {
  readonly name: string;
  readonly members: readonly Member[];
  readonly #connectMs: number;
  readonly #clock: Clock;
  readonly #waiting = new LinkedList<Waiting>();
  readonly #closing = new AbortController();
  #turn = 0;
  #timer: Disposable | undefined;
  #probe: Disposable | undefined;

  constructor(upstream: Upstream, clock: Clock) {
    this.name = upstream.name;
    this.members = upstream.urls.map((url) => openMember(new URL(url), upstream));
    this.#connectMs = upstream.connectMs;
    this.#clock = clock;
  }

  /** The next member in turn that is not resting; when all rest, the next in turn. */
  next(): Member | undefined {
    const { members } = this;
    if (members.length === 1) return members[0];
    const now = this.#clock.monotonic();
    for (let tried = 0; tried < members.length; tried++) {
      const member = members[this.#turn++ % members.length];
      if (member !== undefined && member.restsUntil <= now) return member;
    }
    return members[this.#turn++ % members.length];
  }

  /** Whether one of its urls could be connected to the last time, or was not tried yet. */
  get ready(): boolean {
    return this.members.some((member) => !member.isUnreachable);
  }

  /** No connection to this member could be made: the others come first for a while. */
  rest(member: Member): void {
    member.restsUntil = this.#clock.monotonic() + restMs;
    member.isUnreachable = true;
    // Requests would tell when it is back; but who watches readiness may send none until then.
    this.#probe ??= this.#clock.after(restMs, () => void this.#ask());
  }

  /** A connection to this member stands. */
  reached(member: Member): void {
    member.isUnreachable = false;
  }

  get crowded(): boolean {
    return this.#waiting.size >= waitingLimit;
  }

  /** Puts a request on the clock until it has a connection. */
  wait(request: Waiting): void {
    request.waitingSince = this.#clock.monotonic();
    this.#waiting.add(request);
    this.#timer ??= this.#clock.after(this.#connectMs, () => this.#sweep());
  }

  done(request: Waiting): void {
    this.#waiting.remove(request);
  }

  /** Closes idle connections at once and the others after their answers. */
  async close(): Promise<void> {
    this.#timer?.[Symbol.dispose]();
    this.#probe?.[Symbol.dispose]();
    this.#closing.abort();
    await Promise.all(this.members.map((member) => member.pool.close()));
  }

  async #ask(): Promise<void> {
    const gone = this.members.filter((member) => member.isUnreachable);
    const { signal } = this.#closing;
    await Promise.all(
      gone.map(async (member) => {
        if (await connects(member.url, this.#connectMs, signal)) this.reached(member);
      }),
    );
    this.#probe = undefined;
    if (signal.aborted || this.members.every((member) => !member.isUnreachable)) return;
    this.#probe = this.#clock.after(restMs, () => void this.#ask());
  }

  /** All wait equally long, so the oldest is always first, and one timer serves them all. */
  #sweep(): void {
    this.#timer = undefined;
    const now = this.#clock.monotonic();
    for (
      let request = this.#waiting.oldest;
      request !== undefined;
      request = this.#waiting.oldest
    ) {
      const left = request.waitingSince + this.#connectMs - now;
      if (left > 0) {
        this.#timer ??= this.#clock.after(left, () => this.#sweep());
        return;
      }
      this.#waiting.remove(request);
      request.expired();
    }
  }
}

function openMember(url: URL, upstream: Upstream): Member {
  const pool = new (undici().Pool)(url.origin, {
    connections: upstream.connections,
    connectTimeout: upstream.connectMs,
    headersTimeout: upstream.headersMs,
    bodyTimeout: upstream.idleMs,
    // One request at a time on a connection: no client waits behind another one's answer.
    pipelining: 1,
    allowH2: false,
  });
  const basePath = url.pathname.replace(/\/$/, "");
  return { pool, basePath, url, restsUntil: 0, isUnreachable: false };
}

/** Whether something listens there. */
function connects(url: URL, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
  const port = url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port);
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: timeoutMs, signal });
    const end = (connected: boolean): void => {
      socket.destroy();
      resolve(connected);
    };
    socket.once("connect", () => end(true));
    socket.once("timeout", () => end(false));
    socket.once("error", () => end(false));
  });
}
