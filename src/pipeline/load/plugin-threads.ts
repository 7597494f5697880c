/** `host.threads` of one plugin. */
import type { Threads } from "../../plugin.ts";

/** Gives all names a prefix, so that a plugin reaches neither the core nor other plugins through them. */
export function threadsOfPlugin(threads: Threads, plugin: string): Threads {
  const { index, count, slots } = threads;
  const full = (name: string): string => `plugin ${plugin}: ${name}`;
  return {
    index,
    count,
    slots,
    memory: (name, bytes) => threads.memory(full(name), bytes),
    call: (name, value, to) => threads.call(full(name), value, to),
    serve: (name, answer) => threads.serve(full(name), answer),
    send: (topic, value, to) => threads.send(full(topic), value, to),
    receive: (topic, receive) => threads.receive(full(topic), receive),
    onEnded: (ended) => threads.onEnded(ended),
  };
}
