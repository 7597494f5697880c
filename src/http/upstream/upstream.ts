/**
 * An upstream with its connections: a pool of kept connections to each of its URLs. URLs are used in turn; those that
 * cannot be reached are ejected. Requests that wait for a connection are counted and refused after `connectMs`.
 */
import { connect } from "node:net";
import type { Clock, Upstream } from "../../plugin.ts";
import { WaitLimit, type Waiting } from "../../wait-limit.ts";
import { chooseBackend, inTurn, type Backend } from "./choose-backend.ts";
import { Ejection, type EjectionPolicy } from "./ejection.ts";
import { addressOf } from "./open-socket.ts";
import { UndiciClient } from "./undici-client.ts";

/** One URL of an upstream. */
export interface Member extends Backend {
  readonly client: UndiciClient;
  /** Path of the URL without a slash at its end. It is prepended to every path that is sent. */
  readonly basePath: string;
  readonly url: URL;
  readonly ejection: Ejection;
}

/** A member that cannot be reached is probed as often as clients are told to retry (`Retry-After: 5`). */
const ejectionPolicy: EjectionPolicy = {
  failures: 1,
  failuresAfterReturn: 1,
  firstMs: 5_000,
  maxMs: 5_000,
  jitter: 0,
};

/** Maximum number of waiting requests. Further ones are refused at once, because they would be answered too late. */
const waitingLimit = 1_000;

export class UpstreamPools {
  readonly name: string;
  readonly members: readonly Member[];
  readonly #connectMs: number;
  readonly #clock: Clock;
  /** Requests that wait for a connection. */
  readonly #waiting: WaitLimit;
  readonly #closing = new AbortController();
  readonly #draw = inTurn();

  constructor(upstream: Upstream, clock: Clock) {
    this.name = upstream.name;
    this.#connectMs = upstream.connectMs;
    this.#clock = clock;
    this.#waiting = new WaitLimit(clock, upstream.connectMs);
    this.members = upstream.urls.map((url) => this.#openMember(new URL(url), upstream));
  }

  /** Returns the next member in turn, an ejected one only if all are ejected. */
  next(): Member | undefined {
    return chooseBackend(this.members, this.#draw);
  }

  /** True if at least one URL can be connected to, as far as is known. */
  get ready(): boolean {
    return this.members.some((member) => !member.isEjected);
  }

  get crowded(): boolean {
    return this.#waiting.size >= waitingLimit;
  }

  /** Limits the time until a request has a connection. */
  wait(request: Waiting): void {
    this.#waiting.begin(request);
  }

  /** The request has a connection, or has been refused. */
  done(request: Waiting): void {
    this.#waiting.end(request);
  }

  /** Closes idle connections at once and the others after their answers. */
  async close(): Promise<void> {
    this.#waiting.close();
    for (const { ejection } of this.members) ejection.close();
    this.#closing.abort();
    await Promise.all(this.members.map((member) => member.client.drain()));
  }

  #openMember(url: URL, upstream: Upstream): Member {
    const client = new UndiciClient(url.origin, upstream);
    const ejection = new Ejection(ejectionPolicy, this.#clock, () => {
      void connects(url, this.#connectMs, this.#closing.signal).then((isGood) =>
        ejection.probed(isGood),
      );
    });
    return {
      client,
      basePath: url.pathname.replace(/\/$/, ""),
      url,
      ejection,
      get isEjected() {
        return ejection.isEjected;
      },
      // Members are taken strictly in turn.
      inFlight: 0,
    };
  }
}

/** Resolves to true if the address of the URL accepts a connection. */
function connects(url: URL, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
  const { host, port } = addressOf(url);
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
