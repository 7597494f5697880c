/** The threads of one process as `host.store.replicas`, which plugins use for the gateways of one database. */
import { late, withinLimit } from "../../base/time-limit.ts";
import { version } from "../../base/version.ts";
import { MainThreads } from "./ports.ts";
import type { Awaitable, Clock, ReplicaAnswer, Replicas, Threads } from "../../plugin.ts";

type Receive = (value: unknown) => Awaitable<unknown>;

const askMs = 1_000;
const listCall = "list of threads";

export const threadName = (index: number): string =>
  index === 0 ? "main thread" : `thread ${index}`;

export function serveThreadList(threads: MainThreads): Disposable {
  return threads.serve(listCall, () => [0, ...threads.indexes]);
}

export function replicasOfThreads(threads: Threads, clock: Clock): Replicas {
  const topics = new Map<string, Receive[]>();
  const full = (topic: string): string => `replicas: ${topic}`;
  const deliver = (topic: string, value: unknown): unknown =>
    topics
      .get(topic)
      ?.map((receive) => receive(value))
      .at(-1);
  /** Opens a topic for its first receiver. It remains open, because others may call it at any time. */
  const open = (topic: string): Receive[] => {
    const receivers: Receive[] = [];
    topics.set(topic, receivers);
    threads.receive(full(topic), (value) => void deliver(topic, value));
    threads.serve(full(topic), (value) => deliver(topic, value));
    return receivers;
  };
  const others = async (): Promise<readonly number[]> => {
    if (threads instanceof MainThreads) return threads.indexes;
    // The main thread answers with numbers.
    const all = (await threads.call(listCall, undefined)) as number[];
    return all.filter((index) => index !== threads.index);
  };
  const answerOf = async (topic: string, value: unknown, to: number): Promise<ReplicaAnswer> => {
    const answered = threads.call(full(topic), value, to).then(
      (given) => ({ value: given }),
      () => undefined,
    );
    const found = await withinLimit(answered, askMs, clock);
    const answer = found === late ? undefined : found;
    return { id: String(to), name: threadName(to), version, heardMsAgo: 0, answer };
  };
  return {
    id: String(threads.index),
    mark() {},
    send(topic, value, to) {
      threads.send(full(topic), value, to === undefined ? undefined : Number(to));
    },
    receive(topic, receive) {
      const receivers = topics.get(topic) ?? open(topic);
      receivers.push(receive);
      return {
        [Symbol.dispose]: () => void receivers.splice(receivers.indexOf(receive), 1),
      };
    },
    async ask(topic, value) {
      return Promise.all((await others()).map((to) => answerOf(topic, value, to)));
    },
  };
}
