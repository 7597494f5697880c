import { runGuarded } from "../../../base/guard.ts";
import type { WaitLimit, WaitingAs } from "../../../base/wait-limit.ts";
import type { UpstreamFailure } from "../../../contract/upstream-failure.ts";
import type { Http1Carrier, Http1Options, UpstreamExchange } from "./exchange.ts";

interface WaitedFor {
  readonly options: Http1Options;
  failure(kind: "saturated", timeoutMs: number): UpstreamFailure;
}

/** Serves as the carrier of its exchange until there is a connection. */
export class WaitingExchange implements WaitingAs<WaitingExchange>, Http1Carrier {
  readonly exchange: UpstreamExchange;
  readonly hasSent = false;
  waitingSince = 0;
  previous: WaitingExchange | undefined = undefined;
  next: WaitingExchange | undefined = undefined;
  readonly #queue: WaitLimit<WaitingExchange>;
  readonly #client: WaitedFor;

  constructor(exchange: UpstreamExchange, queue: WaitLimit<WaitingExchange>, client: WaitedFor) {
    this.exchange = exchange;
    this.#queue = queue;
    this.#client = client;
  }

  expired(): void {
    const { connectMs, onBug } = this.#client.options;
    const failure = this.#client.failure("saturated", connectMs);
    runGuarded(() => this.exchange.onError(failure), onBug);
  }

  pause(): void {}

  resume(): void {}

  abort(): void {
    this.#queue.end(this);
  }
}
