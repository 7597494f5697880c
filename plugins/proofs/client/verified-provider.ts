/**
 * Providers for PAPI, polkadot.js and dedot that do not believe the gateway, in Node and in browsers, exported by
 * `sluice-gateway/client`. They replace an answer that has a proof and is not proved by the JSON-RPC error -32052
 * `Not Proved`, and read at the finalized head if a call names no block. Runtime calls, metadata and heads that are not
 * finalized have no proof and pass; other reads at such heads are refused.
 */
import { RpcError } from "./rpc-socket.ts";
import { VerifiedConnection, type ProviderOptions } from "./verified-connection.ts";

export type { Checkpoint } from "../proofs/finalized-chain.ts";
export type { ProviderOptions } from "./verified-connection.ts";

interface JsonRpcCall {
  readonly id?: string | number | null;
  readonly method: string;
  readonly params?: readonly unknown[];
}

/**
 * Returns a provider for PAPI. `url`: address of a WebSocket route to the surface `ledger-ws`. Throws an Error if the
 * authorities of the checkpoint have no weight.
 */
export function verifiedProvider(url: string, options: ProviderOptions) {
  return (
    onMessage: (message: never) => void,
  ): { readonly send: (call: JsonRpcCall) => void; readonly disconnect: () => void } => {
    // PAPI has its own types of messages, which have these members.
    const deliver = (message: object): void => onMessage({ jsonrpc: "2.0", ...message } as never);
    const connection = new VerifiedConnection(url, options, { onNotification: deliver });
    return {
      send({ id, method, params = [] }) {
        connection.call(method, params).then(
          (result) => deliver({ id, result }),
          (error: unknown) => deliver({ id, error: errorOf(error) }),
        );
      },
      disconnect: () => connection.close(),
    };
  };
}

function errorOf(error: unknown): { code: number; message: string; data?: unknown } {
  if (!(error instanceof RpcError)) return { code: -32603, message: "Internal Error" };
  const { code, message, data } = error;
  return { code, message, data };
}

/** `reconnecting` is for the types of dedot: an open connection that is lost is opened again by `connect`. */
type Event = "connected" | "disconnected" | "error" | "reconnecting";
// Each library has its own types of results and events.
// oxlint-disable-next-line typescript/no-explicit-any
type EventListener = (...values: any[]) => any;
type Listener = (error: Error | null, result: unknown) => void;

interface DedotSubscription {
  readonly subscribe: string;
  readonly unsubscribe: string;
  readonly params: readonly unknown[];
}
interface DedotSubscribed {
  readonly subscriptionId: string;
  readonly unsubscribe: () => Promise<void>;
}
// oxlint-disable-next-line typescript/no-explicit-any -- as `EventListener`
type DedotListener = (error: Error | null, result: any, subscription: DedotSubscribed) => void;

/** A provider for polkadot.js and dedot, in place of their `WsProvider`. */
export class VerifiedProvider {
  readonly hasSubscriptions = true;
  readonly isClonable = true;
  readonly #url: string;
  readonly #options: ProviderOptions;
  readonly #connection: VerifiedConnection;
  readonly #subscriptions = new Map<unknown, Listener>();
  readonly #listeners = new Map<Event, Set<EventListener>>();

  /** `url`: see `verifiedProvider`. Connects at once. Throws an Error if the authorities of the checkpoint have no weight. */
  constructor(url: string, options: ProviderOptions) {
    this.#url = url;
    this.#options = options;
    this.#connection = new VerifiedConnection(url, options, {
      onNotification: ({ params: { subscription, result } }) =>
        this.#subscriptions.get(subscription)?.(null, result),
      onOpen: () => this.#emit("connected"),
      onClose: () => {
        this.#subscriptions.clear();
        this.#emit("disconnected");
      },
    });
    this.connect().catch((error: unknown) => this.#emit("error", error));
  }

  get isConnected(): boolean {
    return this.#connection.isOpen;
  }

  get status(): "connected" | "disconnected" {
    return this.isConnected ? "connected" : "disconnected";
  }

  clone(): VerifiedProvider {
    return new VerifiedProvider(this.#url, this.#options);
  }

  /** Resolves to the provider for dedot, and to nothing in the types of polkadot.js. */
  // oxlint-disable-next-line typescript/no-explicit-any
  async connect(): Promise<any> {
    await this.#connection.open();
    return this;
  }

  disconnect(): Promise<void> {
    this.#connection.close();
    return Promise.resolve();
  }

  on(event: Event, listener: EventListener): () => void {
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners.add(listener));
    return () => void listeners.delete(listener);
  }

  once(event: Event, listener: EventListener): () => void {
    const off = this.on(event, (...values: unknown[]) => {
      off();
      listener(...values);
    });
    return off;
  }

  off(event: Event, listener?: EventListener): this {
    if (listener === undefined) this.#listeners.delete(event);
    else this.#listeners.get(event)?.delete(listener);
    return this;
  }

  // The libraries leave the type of the result to the caller.
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters
  async send<T>(method: string, params: readonly unknown[]): Promise<T> {
    return (await this.#connection.call(method, params)) as T;
  }

  subscribe(
    type: string,
    method: string,
    params: readonly unknown[],
    listener: Listener,
  ): Promise<number | string>;
  subscribe(wanted: DedotSubscription, listener: DedotListener): Promise<DedotSubscribed>;
  subscribe(
    ...args:
      | [type: string, method: string, params: readonly unknown[], listener: Listener]
      | [wanted: DedotSubscription, listener: DedotListener]
  ): Promise<number | string | DedotSubscribed> {
    if (args.length === 2) return this.#subscribeForDedot(...args);
    const [, method, params, listener] = args;
    return this.#subscribe(method, params, listener);
  }

  async #subscribe(
    method: string,
    params: readonly unknown[],
    listener: Listener,
  ): Promise<number | string> {
    const id = await this.send<number | string>(method, params);
    this.#subscriptions.set(id, listener);
    return id;
  }

  async #subscribeForDedot(
    { subscribe, unsubscribe, params }: DedotSubscription,
    listener: DedotListener,
  ): Promise<DedotSubscribed> {
    const id = await this.#subscribe(subscribe, params, (error, result) => {
      listener(error, result, subscribed);
    });
    const subscribed: DedotSubscribed = {
      subscriptionId: String(id),
      unsubscribe: async () => void (await this.unsubscribe("", unsubscribe, id)),
    };
    return subscribed;
  }

  async unsubscribe(_type: string, method: string, id: number | string): Promise<boolean> {
    this.#subscriptions.delete(id);
    return await this.send(method, [id]);
  }

  #emit(event: Event, value?: unknown): void {
    for (const listener of this.#listeners.get(event) ?? []) listener(value);
  }
}
