import type { ExchangeObserver } from "../../pipeline/observe/record.ts";
import type { Clock, SettledExchange, Threads } from "../../plugin.ts";
import { settledTopic } from "./thread-start.ts";

const sendMs = 200;

export interface Forwarded extends Disposable {
  readonly settled: ExchangeObserver;
}

export function forwardSettled(threads: Threads, clock: Clock): Forwarded {
  let waiting: SettledExchange[] = [];
  const send = (): void => {
    if (waiting.length === 0) return;
    const batch = waiting;
    waiting = [];
    try {
      threads.send(settledTopic, batch, 0);
    } catch {
      // A plugin has noted a fact that cannot be copied, such as a function.
      const plain = ({ facts: { requestId, store } }: SettledExchange) => ({ requestId, store });
      threads.send(
        settledTopic,
        batch.map((each) => ({ ...each, facts: plain(each) })),
        0,
      );
    }
  };
  const timer = clock.every(sendMs, send);
  return {
    settled: (record) => void waiting.push(copyOf(record)),
    [Symbol.dispose]() {
      timer[Symbol.dispose]();
      send();
    },
  };
}

/** A structured clone keeps no getters, and the route of a record has more than the path. */
function copyOf(exchange: SettledExchange): SettledExchange {
  const { arrivedAt, ms, method, route, status, code, reason, facts, calls } = exchange;
  return {
    arrivedAt,
    ms,
    method,
    route: { path: route.path },
    status,
    code,
    reason,
    facts,
    calls: calls && {
      items: calls.items,
      failed: calls.failed,
      code: calls.code,
      names: calls.names,
    },
  };
}

export type Observers = ReadonlySet<(exchange: SettledExchange) => void>;

export function receiveSettled(threads: Threads, observers: Observers): Disposable {
  return threads.receive(settledTopic, (batch) => {
    // Only `forwardSettled` sends to this topic.
    for (const exchange of batch as SettledExchange[]) {
      for (const observer of observers) observer(exchange);
    }
  });
}
