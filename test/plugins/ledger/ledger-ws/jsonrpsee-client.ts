/**
 * A client with the habits of jsonrpsee, on which subxt is built: numeric ids from 0, no `params` if there are none, and
 * notifications of a subscription are only accepted after the answer that opens it.
 */
import assert from "node:assert/strict";
import { connectWs, type WsClient } from "./ws-client.ts";

export interface JsonrpseeAnswer {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: { readonly code: number };
}

interface Notification {
  readonly method: string;
  readonly params: { readonly subscription: string; readonly result: FollowEvent };
}

/** The result of a notification. Which members it has depends on the event. */
export interface FollowEvent {
  readonly event: string;
  readonly operationId?: string;
  readonly finalizedBlockHashes?: readonly string[];
  readonly items?: readonly unknown[];
  readonly output?: string;
}

export class JsonrpseeClient implements AsyncDisposable {
  readonly #client: WsClient;
  readonly #waiting = new Map<number, (answer: JsonrpseeAnswer) => void>();
  /** The notifications that were not taken, by subscription. */
  readonly #open = new Map<string, Notification[]>();
  #onNotification: (() => void) | undefined;
  #nextId = 0;

  static async connect(url: string, key: string): Promise<JsonrpseeClient> {
    // subxt is given a URL only, so the key is in its path.
    return new JsonrpseeClient(await connectWs(`${url}/v1/ledger/ws/${key}`));
  }

  private constructor(client: WsClient) {
    this.#client = client;
    void this.#read();
  }

  call(method: string, ...params: readonly unknown[]): Promise<JsonrpseeAnswer> {
    const id = this.#nextId++;
    const given = params.length === 0 ? {} : { params };
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#client.send(JSON.stringify({ jsonrpc: "2.0", id, method, ...given }));
    });
  }

  /** Makes a call that must succeed. */
  async request(method: string, ...params: readonly unknown[]): Promise<unknown> {
    const { result, error } = await this.call(method, ...params);
    assert.equal(error, undefined, `${method}: ${JSON.stringify(error)}`);
    return result;
  }

  /** Opens a subscription. Returns its id, which subxt requires to be a string. */
  async subscribe(method: string, ...params: readonly unknown[]): Promise<string> {
    const id = await this.request(method, ...params);
    assert.ok(typeof id === "string");
    return id;
  }

  /** Returns the next notification of a subscription, as the node's result. */
  async next(subscription: string): Promise<FollowEvent> {
    for (;;) {
      const notification = this.#open.get(subscription)?.shift();
      if (notification !== undefined) return notification.params.result;
      await new Promise<void>((resolve) => (this.#onNotification = resolve));
    }
  }

  /** Drops the events of a subscription until one has this name. */
  async event(subscription: string, name: string): Promise<FollowEvent> {
    for (;;) {
      const event = await this.next(subscription);
      if (event.event === name) return event;
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return Promise.resolve(this.#client[Symbol.asyncDispose]());
  }

  async #read(): Promise<void> {
    for (;;) {
      const text = await this.#client.next();
      if (text.startsWith("closed")) return;
      const message = JSON.parse(text) as JsonrpseeAnswer | Notification;
      if ("method" in message) this.#receive(message);
      else {
        if (typeof message.result === "string") this.#open.set(message.result, []);
        this.#waiting.get(message.id)?.(message);
        this.#waiting.delete(message.id);
      }
    }
  }

  #receive(message: Notification): void {
    const open = this.#open.get(message.params.subscription);
    // jsonrpsee drops such a notification, and subxt would wait for it for ever.
    assert.ok(open !== undefined, "the subscription was answered before its first notification");
    open.push(message);
    this.#onNotification?.();
  }
}
