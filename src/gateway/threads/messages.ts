/** Calls and messages between threads, over ports of the main thread, which passes on what is for another thread. */
import { runGuarded } from "../../base/guard.ts";
import { messageOf } from "../../base/message-of.ts";
import type { Awaitable, Clock, Log } from "../../plugin.ts";

/** `all`: all threads except the sender. */
type Receiver = number | "all";

type Content =
  | { readonly kind: "send"; readonly name: string; readonly value: unknown }
  | {
      readonly kind: "call";
      readonly name: string;
      readonly value: unknown;
      readonly id: number;
    }
  | { readonly kind: "answer"; readonly id: number; readonly value: unknown }
  | { readonly kind: "failure"; readonly id: number; readonly error: CopiedError }
  | { readonly kind: "ended"; readonly index: number };

export type ThreadMessage = Content & { readonly from: number; readonly to: Receiver };

/** An error as another thread gets it. A structured clone would keep neither its class nor its members. */
interface CopiedError {
  readonly message: string;
  readonly name?: string;
  readonly code?: string;
  readonly remedy?: string;
}

const callLimitMs = 10_000;

interface Waiting {
  readonly to: number;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

type Answer = (value: unknown, from: number) => Awaitable<unknown>;
type Receive = (value: unknown, from: number) => void;

export class Messages {
  readonly index: number;
  readonly #post: (message: ThreadMessage) => void;
  readonly #clock: Clock;
  readonly #log: Log;
  /** By name, the newest last. */
  readonly #answers = new Map<string, Answer[]>();
  readonly #receivers = new Map<string, Set<Receive>>();
  readonly #waiting = new Map<number, Waiting>();
  /** A thread gets no answer to a call of an earlier thread with the same index. */
  #lastId = Math.floor(Math.random() * 2 ** 48);

  constructor(
    index: number,
    post: (message: ThreadMessage) => void,
    { clock, log }: { readonly clock: Clock; readonly log: Log },
  ) {
    this.index = index;
    this.#post = post;
    this.#clock = clock;
    this.#log = log;
  }

  async call(name: string, value: unknown, to = 0, limitMs = callLimitMs): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const id = ++this.#lastId;
    this.#waiting.set(id, { to, resolve, reject });
    using _limit = this.#clock.after(limitMs, () =>
      reject(new Error(`thread ${to} has not answered "${name}" within ${limitMs} ms`)),
    );
    try {
      this.#post({ kind: "call", name, value, id, from: this.index, to });
      return await promise;
    } finally {
      this.#waiting.delete(id);
    }
  }

  serve(name: string, answer: Answer): Disposable {
    const answers = this.#answers.get(name) ?? [];
    this.#answers.set(name, answers);
    answers.push(answer);
    return { [Symbol.dispose]: () => void answers.splice(answers.indexOf(answer), 1) };
  }

  send(name: string, value: unknown, to: Receiver = "all"): void {
    this.#post({ kind: "send", name, value, from: this.index, to });
  }

  receive(name: string, receive: Receive): Disposable {
    const receivers = this.#receivers.get(name) ?? new Set();
    // Two generations of a plugin can use the same function.
    const own: Receive = (value, from) => receive(value, from);
    this.#receivers.set(name, receivers.add(own));
    return { [Symbol.dispose]: () => void receivers.delete(own) };
  }

  /** Never throws. */
  arrived(message: ThreadMessage): void {
    const failed = (error: unknown): void =>
      this.#log.error({ err: error, from: message.from }, "a message of a thread failed");
    void runGuarded(() => this.#handle(message), failed);
  }

  #ended(index: number): void {
    for (const { to, reject } of this.#waiting.values()) {
      if (to === index) reject(new Error(`thread ${index} has ended`));
    }
  }

  #handle(message: ThreadMessage): Awaitable<void> {
    const { from } = message;
    switch (message.kind) {
      case "send":
        for (const receive of this.#receivers.get(message.name) ?? []) receive(message.value, from);
        return;
      case "call":
        return this.#answer(message.name, message.value, from, message.id);
      case "answer":
        this.#waiting.get(message.id)?.resolve(message.value);
        return;
      case "failure":
        this.#waiting.get(message.id)?.reject(restored(message.error));
        return;
      case "ended":
        this.#ended(message.index);
    }
  }

  async #answer(name: string, value: unknown, to: number, id: number): Promise<void> {
    const { index: from } = this;
    try {
      const answer = this.#answers.get(name)?.at(-1);
      if (answer === undefined) throw new Error(`thread ${from} does not answer "${name}"`);
      this.#post({ kind: "answer", id, value: await answer(value, to), from, to });
    } catch (error) {
      this.#post({ kind: "failure", id, error: copied(error), from, to });
    }
  }
}

function copied(error: unknown): CopiedError {
  if (!(error instanceof Error)) return { message: messageOf(error) };
  const { name, message, code, remedy } = error as Error & Partial<CopiedError>;
  return {
    name,
    message,
    ...(typeof code === "string" && { code }),
    ...(typeof remedy === "string" && { remedy }),
  };
}

function restored({ message, ...members }: CopiedError): Error {
  return Object.assign(new Error(message), members);
}
