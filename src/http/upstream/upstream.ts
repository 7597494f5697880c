/** An HTTP client for each of an upstream's URLs, which are used in turn. Those that cannot be reached are ejected. */
import { connect } from "node:net";
import type { Clock, Log, Upstream } from "../../plugin.ts";
import { chooseBackend, roundRobin, type Backend } from "./choose-backend.ts";
import { Ejection, type EjectionPolicy } from "./ejection.ts";
import { Http1Client } from "./http1/client.ts";
import { addressOf } from "./open-socket.ts";

export interface Member extends Backend {
  readonly client: Http1Client;
  /** Path of the URL without a slash at its end. It is prepended to every path that is sent. */
  readonly basePath: string;
  readonly url: URL;
  readonly ejection: Ejection;
}

/** A member that cannot be reached is probed as often as clients are asked to retry (`Retry-After: 5`). */
const ejectionPolicy: EjectionPolicy = {
  failures: 1,
  failuresAfterReturn: 1,
  firstMs: 5_000,
  maxMs: 5_000,
  jitter: 0,
};

/** An idle connection is closed after this time: less than the 5 s after which many servers close it. */
const unusedMs = 4_000;

export class UpstreamPools {
  readonly name: string;
  readonly members: readonly Member[];
  readonly headersMs: number;
  readonly #closing = new AbortController();
  readonly #draw = roundRobin();

  constructor(upstream: Upstream, clock: Clock, log: Log) {
    this.name = upstream.name;
    this.headersMs = upstream.headersMs;
    this.members = upstream.urls.map((url) => this.#openMember(new URL(url), upstream, clock, log));
  }

  /** Returns the next member in turn, an ejected one only if all are ejected. */
  next(): Member | undefined {
    return chooseBackend(this.members, this.#draw);
  }

  /** True if at least one URL can be connected to, as far as is known. */
  get ready(): boolean {
    return this.members.some((member) => !member.isEjected);
  }

  /** Closes idle connections at once and the others after their answers. */
  async close(): Promise<void> {
    for (const { ejection } of this.members) ejection.close();
    this.#closing.abort();
    await Promise.all(this.members.map((member) => member.client.drain()));
  }

  #openMember(url: URL, upstream: Upstream, clock: Clock, log: Log): Member {
    const { connections, connectMs, headersMs, idleMs, name } = upstream;
    const client = new Http1Client({
      url,
      connections,
      connectMs,
      answerMs: headersMs,
      idleMs,
      unusedMs,
      maxAnswerBytes: Number.MAX_SAFE_INTEGER,
      keepsFields: true,
      clock,
      onBug: (error) => log.error({ err: error, upstream: name }, "an answer was not forwarded"),
    });
    const ejection = new Ejection(ejectionPolicy, clock, () => {
      void connects(url, connectMs, this.#closing.signal).then((isGood) => ejection.probed(isGood));
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
