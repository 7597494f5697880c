/**
 * Providers for PAPI and polkadot.js that do not believe the gateway, in Node and in browsers, exported as
 * `sluice-gateway/client/proofs`. They replace an answer that has a proof and is not proved by the JSON-RPC error -32052
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

type Event = "connected" | "disconnected" | "error";
type Listener = (error: Error | null, result: unknown) => void;

/** A provider for polkadot.js, in place of its `WsProvider`. */
export class VerifiedProvider {
  readonly hasSubscriptions = true;
  readonly isClonable = true;
  readonly #url: string;
  readonly #options: ProviderOptions;
  readonly #connection: VerifiedConnection;
  readonly #subscriptions = new Map<unknown, Listener>();
  readonly #listeners = new Map<Event, Set<(value?: unknown) => unknown>>();

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

  clone(): VerifiedProvider {
    return new VerifiedProvider(this.#url, this.#options);
  }

  async connect(): Promise<void> {
    await this.#connection.open();
  }

  disconnect(): Promise<void> {
    this.#connection.close();
    return Promise.resolve();
  }

  on(event: Event, listener: (value?: unknown) => unknown): () => void {
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners.add(listener));
    return () => void listeners.delete(listener);
  }

  // polkadot.js leaves the type of the result to the caller.
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters
  async send<T>(method: string, params: readonly unknown[]): Promise<T> {
    return (await this.#connection.call(method, params)) as T;
  }

  async subscribe(
    _type: string,
    method: string,
    params: readonly unknown[],
    listener: Listener,
  ): Promise<number | string> {
    const id = await this.send<number | string>(method, params);
    this.#subscriptions.set(id, listener);
    return id;
  }

  async unsubscribe(_type: string, method: string, id: number | string): Promise<boolean> {
    this.#subscriptions.delete(id);
    return await this.send(method, [id]);
  }

  #emit(event: Event, value?: unknown): void {
    for (const listener of this.#listeners.get(event) ?? []) listener(value);
  }
}
