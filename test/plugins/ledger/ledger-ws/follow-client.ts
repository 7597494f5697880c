/** A client of `chainHead_v1_*` over `ledger-ws`. It sorts answers and events, which arrive in any order. */
import assert from "node:assert/strict";
import { connectWs, type WsClient } from "./ws-client.ts";

interface Received {
  readonly follow: string;
  readonly text: string;
}

export class FollowClient {
  readonly closed: Promise<number>;
  /** Resolves to the price of everything so far, in milli-CU. */
  readonly used: () => Promise<number>;
  readonly #client: WsClient;
  readonly #answers = new Map<number, (text: string) => void>();
  #raw: ((text: string) => void) | undefined;
  #events: Received[] = [];
  #onEvent: (() => void) | undefined;
  #nextId = 100;
  #follow = "";

  static async connect(
    url: string,
    key: string,
    used: () => Promise<number>,
  ): Promise<FollowClient> {
    return new FollowClient(await connectWs(`${url}/v1/ledger/rpc`, { key }), used);
  }

  private constructor(client: WsClient, used: () => Promise<number>) {
    this.#client = client;
    this.closed = client.closed;
    this.used = used;
    void this.#read();
  }

  async follow(withRuntime: boolean): Promise<string> {
    this.#follow = JSON.parse(await this.ask("follow", [withRuntime]));
    return this.#follow;
  }

  /** Returns the id of the follow that was opened last. */
  only(): Promise<string> {
    return Promise.resolve(this.#follow);
  }

  async start(method: string, params: object): Promise<string> {
    const answer = JSON.parse(await this.ask(method, params));
    assert.equal(answer.result, "started");
    return answer.operationId;
  }

  async ask(method: string, params: object): Promise<string> {
    const answer = await this.call(method, params);
    const found = /"result":(.*)\}$/s.exec(answer)?.[1];
    assert.ok(found !== undefined, answer);
    return found;
  }

  async error(method: string, params: object): Promise<number> {
    const answer = await this.call(method, params);
    return JSON.parse(answer).error?.code ?? assert.fail(answer);
  }

  /** Sends any text and returns the next message that is neither an event nor the answer to another call. */
  raw(text: string): Promise<string> {
    this.#client.send(text);
    return new Promise((resolve) => (this.#raw = resolve));
  }

  /** Waits for the next event with this name, and drops the others of the follow before it. */
  async event(name: string, follow?: string): Promise<string> {
    for (;;) {
      const found = this.#events.findIndex(
        (event) =>
          event.text.startsWith(`{"event":"${name}"`) && event.follow === (follow ?? event.follow),
      );
      const event = this.#events[found];
      if (event !== undefined) {
        this.#events = this.#events.filter(
          (each, at) => at > found || each.follow !== event.follow,
        );
        return event.text;
      }
      await new Promise<void>((resolve) => (this.#onEvent = resolve));
    }
  }

  async events(follow: string, count: number): Promise<readonly string[]> {
    const own = (): readonly Received[] => this.#events.filter((each) => each.follow === follow);
    while (own().length < count) await new Promise<void>((resolve) => (this.#onEvent = resolve));
    const taken = own().slice(0, count);
    this.#events = this.#events.filter((each) => !taken.includes(each));
    return taken.map(({ text }) => text);
  }

  /** Number of events with this name that have arrived and were not taken. */
  count(name: string): Promise<number> {
    return Promise.resolve(this.#events.filter(({ text }) => text.includes(`"${name}"`)).length);
  }

  pause(): void {
    this.#client.socket.pause();
  }

  resume(): void {
    this.#client.socket.resume();
  }

  async close(): Promise<void> {
    await this.#client[Symbol.asyncDispose]();
  }

  call(method: string, params: object): Promise<string> {
    const id = this.#nextId++;
    const call = { jsonrpc: "2.0", id, method: `chainHead_v1_${method}`, params };
    return new Promise((resolve) => {
      this.#answers.set(id, resolve);
      this.#client.send(JSON.stringify(call));
    });
  }

  async #read(): Promise<void> {
    for (;;) {
      const text = await this.#client.next();
      if (text.startsWith("closed")) return;
      const notified = /"params":\{"subscription":"([\w-]+)","result":(.*)\}\}$/s.exec(text);
      const [, follow, event] = notified ?? [];
      if (follow !== undefined && event !== undefined) {
        this.#events.push({ follow, text: event });
        this.#onEvent?.();
        continue;
      }
      const id = /"id":(\d+)/.exec(text)?.[1];
      const answer = this.#answers.get(Number(id));
      this.#answers.delete(Number(id));
      if (answer === undefined) this.#raw?.(text);
      else answer(text);
    }
  }
}
