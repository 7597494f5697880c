/** `Threads` over MessagePorts: a star with the main thread in its centre. */
import { receiveMessageOnPort, type MessagePort } from "node:worker_threads";
import type { Clock, Log, Threads } from "../../plugin.ts";
import { Messages, type ThreadMessage } from "./messages.ts";

interface Deps {
  readonly clock: Clock;
  readonly log: Log;
}

/** A request for shared memory. The asking thread sleeps until `done` is 1. */
interface MemoryRequest {
  readonly name: string;
  readonly bytes: number;
  readonly done: Int32Array;
}

/** The end of a thread's ports in the main thread. Ports cannot be read without blocking, so memory has its own. */
export interface ThreadPorts {
  readonly messages: MessagePort;
  readonly memory: MessagePort;
}

const memoryWaitMs = 10_000;

/** Each thread can be replaced once while it drains. */
const slotsOf = (count: number): number => 2 * count + 1;

export class MainThreads extends Messages implements Threads {
  readonly count: number;
  readonly slots: number;
  readonly #ports = new Map<number, MessagePort>();
  readonly #memory = new Map<string, SharedArrayBuffer>();
  readonly #ended = new Set<(index: number) => void>();

  constructor(count: number, deps: Deps) {
    super(0, (message) => this.#route(message), deps);
    this.count = count;
    this.slots = slotsOf(count);
  }

  get indexes(): number[] {
    return [...this.#ports.keys()];
  }

  memory(name: string, bytes: number): SharedArrayBuffer {
    const known = this.#memory.get(name) ?? new SharedArrayBuffer(bytes);
    this.#memory.set(name, known);
    if (known.byteLength !== bytes) {
      throw new Error(`the shared memory "${name}" has ${known.byteLength} bytes, not ${bytes}`);
    }
    return known;
  }

  onEnded(ended: (index: number) => void): Disposable {
    this.#ended.add(ended);
    return { [Symbol.dispose]: () => void this.#ended.delete(ended) };
  }

  /** `memory` is missing if the caller of `joinThreads` has the memory of this object. */
  connect(
    index: number,
    { messages, memory }: Partial<ThreadPorts> & Pick<ThreadPorts, "messages">,
  ): void {
    this.#ports.set(index, messages);
    messages.on("message", (message: ThreadMessage) => this.#route(message));
    memory?.on("message", ({ name, bytes, done }: MemoryRequest) => {
      try {
        memory.postMessage(this.memory(name, bytes), []);
      } finally {
        Atomics.store(done, 0, 1);
        Atomics.notify(done, 0);
      }
    });
  }

  receiveLast(index: number): void {
    const port = this.#ports.get(index);
    if (port === undefined) return;
    for (;;) {
      const last: { message: ThreadMessage } | undefined = receiveMessageOnPort(port);
      if (last === undefined) return;
      this.#route(last.message);
    }
  }

  /** Fails the calls to the thread, and notifies those who hold something for it. */
  disconnect(index: number): void {
    this.#ports.get(index)?.close();
    this.#ports.delete(index);
    this.#route({ kind: "ended", index, from: index, to: "all" });
    for (const ended of this.#ended) ended(index);
  }

  #route(message: ThreadMessage): void {
    const { from, to } = message;
    if (to === 0) return this.arrived(message);
    if (to !== "all") {
      const port = this.#ports.get(to);
      if (port !== undefined) return port.postMessage(message);
      if (message.kind !== "call") return;
      const error = { message: `thread ${to} has ended` };
      return this.#route({ kind: "failure", id: message.id, error, from: to, to: from });
    }
    for (const [index, port] of this.#ports) if (index !== from) port.postMessage(message);
    if (from !== 0) this.arrived(message);
  }
}

export function joinThreads(
  { index, count }: Pick<Threads, "index" | "count">,
  port: MessagePort,
  memory: Threads["memory"],
  deps: Deps,
): Threads {
  const messages = new Messages(index, (message) => port.postMessage(message), deps);
  port.on("message", (message: ThreadMessage) => messages.arrived(message));
  return {
    index,
    count,
    slots: slotsOf(count),
    memory,
    call: (name, value, to) => messages.call(name, value, to),
    serve: (name, answer) => messages.serve(name, answer),
    send: (topic, value, to) => messages.send(topic, value, to),
    receive: (topic, receive) => messages.receive(topic, receive),
    onEnded() {
      throw new Error("only the main thread knows which threads have ended");
    },
  };
}

export function memoryOver(port: MessagePort): Threads["memory"] {
  const known = new Map<string, SharedArrayBuffer>();
  return (name, bytes) => {
    const shared = known.get(name) ?? askForMemory(port, name, bytes);
    known.set(name, shared);
    return shared;
  };
}

function askForMemory(port: MessagePort, name: string, bytes: number): SharedArrayBuffer {
  const done = new Int32Array(new SharedArrayBuffer(4));
  port.postMessage({ name, bytes, done } satisfies MemoryRequest);
  Atomics.wait(done, 0, 0, memoryWaitMs);
  const answer: { message: unknown } | undefined = receiveMessageOnPort(port);
  if (answer?.message instanceof SharedArrayBuffer) return answer.message;
  throw new Error(`the main thread has not given the shared memory "${name}" of ${bytes} bytes`);
}
