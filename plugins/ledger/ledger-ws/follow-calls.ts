/** The methods `chainHead_v1_*` of one connection: its follows and the operations on their blocks. */
import { randomBytes } from "node:crypto";
import type { CallReporter } from "sluice-gateway/plugin";
import type {
  ClientFollow,
  FollowMethod,
  FollowMethods,
  FollowOperation,
  LedgerFollows,
} from "sluice-gateway/services";
import { guarded } from "sluice-gateway/toolkit";
import { Operation } from "./follow-operation.ts";
import {
  InvalidParam,
  readBoolean,
  readHash,
  readHashes,
  readOperation,
  readParams,
  readText,
} from "./follow-params.ts";
import {
  notificationOf,
  type NotifiedSubscription,
  type PaidNotifications,
  type Refusal,
} from "./paid-notifications.ts";
import type { Payer } from "./payer.ts";
import {
  followErrors,
  internalError,
  invalidParams,
  unavailable,
  upstreamErrorCodes,
} from "./rpc-error.ts";
import type { RpcCall } from "./subscriptions.ts";

/** decisions.md section 14. */
const maxFollows = 2;
const maxOperations = 16;
/** Maximum number of characters of results that wait for the client. */
const maxHeld = 16 * 1_048_576;

const limitReached = '{"result":"limitReached"}';
const stop = '{"event":"stop"}';

export interface FollowCallsDeps {
  readonly follows: LedgerFollows;
  readonly payer: Payer;
  readonly notifications: PaidNotifications;
  readonly calls: CallReporter;
  /** Sends a text message. */
  readonly send: (message: string) => void;
  /** True while the client has enough to read. */
  readonly isBusy: () => boolean;
  /** Called for an exception, which ends the connection. */
  readonly onError: (error: unknown) => void;
}

interface OpenFollow extends NotifiedSubscription {
  readonly withRuntime: boolean;
  readonly upstream: ClientFollow;
  readonly operations: Map<string, Operation>;
  /** Number of operations whose credit is being reserved. */
  reserving: number;
}

export class FollowCalls {
  readonly #deps: FollowCallsDeps;
  readonly #open = new Map<string, OpenFollow>();
  /** Charges that are being written. */
  readonly #charges = new Set<Promise<unknown>>();
  #opening = 0;
  #held = 0;
  #isClosed = false;

  constructor(deps: FollowCallsDeps) {
    this.#deps = deps;
  }

  handles(method: string): boolean {
    return this.#deps.follows.methods !== undefined && handlers.has(method);
  }

  /** Answers a call for which `handles` returns true. Sends the answer, unless it rejects. */
  async answer(call: RpcCall): Promise<void> {
    const { methods } = this.#deps.follows;
    const handler = handlers.get(call.method);
    if (methods === undefined || handler === undefined) return;
    try {
      await handler(this, call, methods, readParams(call.method, call.params));
    } catch (error) {
      if (!(error instanceof InvalidParam)) throw error;
      this.refuse(call, { code: "INVALID_PARAMS", error: invalidParams(error.message) });
    }
  }

  /** Sends `stop` to all follows, because the gateway is stopping. */
  drain(): void {
    for (const open of this.#open.values()) this.#stop(open);
  }

  /** Ends all follows. Resolves when all charges have been written. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const open of this.#open.values()) this.#remove(open);
    await Promise.allSettled(this.#charges);
  }

  /** Called when the client has read what was sent. */
  resume(): void {
    for (const { operations } of this.#open.values()) {
      for (const operation of operations.values()) operation.resume();
    }
  }

  async follow(
    call: RpcCall,
    { follow }: FollowMethods,
    params: readonly unknown[],
  ): Promise<void> {
    const withRuntime = readBoolean(params[0], "withRuntime");
    if (this.#open.size + this.#opening >= maxFollows) {
      return this.refuse(call, { code: "LIMIT_REACHED", error: followErrors.tooManyFollows });
    }
    this.#opening++;
    try {
      await this.#openPaid(call, follow, withRuntime);
    } finally {
      this.#opening--;
    }
  }

  unfollow(call: RpcCall, params: readonly unknown[]): void {
    const open = this.#open.get(readText(params[0], "followSubscription"));
    if (open !== undefined) this.#remove(open);
    this.#answer(call, "null");
  }

  unpin(call: RpcCall, params: readonly unknown[]): void {
    const open = this.#open.get(readText(params[0], "followSubscription"));
    const hashes = readHashes(params[1], "hashOrHashes");
    if (new Set(hashes).size < hashes.length) {
      return this.refuse(call, { code: "INVALID_PARAMS", error: followErrors.duplicateHashes });
    }
    if (open !== undefined && !open.upstream.unpin(hashes)) return this.#refuseBlock(call);
    this.#answer(call, "null");
  }

  async header(
    call: RpcCall,
    { header }: FollowMethods,
    params: readonly unknown[],
  ): Promise<void> {
    const open = this.#open.get(readText(params[0], "followSubscription"));
    const hash = readHash(params[1], "hash");
    if (open === undefined) return this.#answer(call, "null");
    if (!open.upstream.hasPinned(hash)) return this.#refuseBlock(call);
    const payment = await this.#deps.payer.reserve(header.cuMilli);
    if ("error" in payment) return this.refuse(call, payment);
    const answer = await open.upstream.header(hash);
    if (answer === undefined) {
      payment.release();
      // The follow has ended with the node, for which the specification defines this answer.
      return this.#answer(call, "null");
    }
    if (!(await payment.settle([{ method: header.name, costMilliCu: header.cuMilli }]))) {
      return this.refuse(call, unavailable);
    }
    if (answer.kind === "result") return this.#answer(call, answer.text);
    this.refuse(call, { code: upstreamErrorCodes.error, error: answer.text });
  }

  /** Starts an operation. */
  async operate(call: RpcCall, method: FollowMethod, params: readonly unknown[]): Promise<void> {
    const open = this.#open.get(readText(params[0], "followSubscription"));
    const hash = readHash(params[1], "hash");
    const all = readOperation(method.name, hash, params);
    if (open === undefined) return this.#answer(call, limitReached);
    if (method.name === "chainHead_v1_call" && !open.withRuntime) {
      return this.refuse(call, { code: "INVALID_PARAMS", error: followErrors.withoutRuntime });
    }
    if (!open.upstream.hasPinned(hash)) return this.#refuseBlock(call);
    const parts = all.slice(0, maxOperations - runningOf(open));
    if (parts.length === 0) return this.#answer(call, limitReached);
    const started = await this.#start(open, method, parts);
    if (started === undefined) return this.#answer(call, limitReached);
    if (typeof started !== "string") return this.refuse(call, started);
    const isStorage = method.name === "chainHead_v1_storage";
    const discarded = isStorage ? `,"discardedItems":${all.length - parts.length}` : "";
    this.#answer(call, `{"result":"started","operationId":"${started}"${discarded}}`);
  }

  continueOperation(call: RpcCall, params: readonly unknown[]): void {
    const operation = this.#operationOf(params);
    if (operation?.isPaused === false) {
      return this.refuse(call, { code: "INVALID_PARAMS", error: followErrors.notWaiting });
    }
    this.#answer(call, "null");
    operation?.resume(true);
  }

  stopOperation(call: RpcCall, params: readonly unknown[]): void {
    this.#operationOf(params)?.stop();
    this.#answer(call, "null");
  }

  refuse(call: RpcCall, { code, error }: Refusal): void {
    this.#report(call.method, code);
    this.#deps.send(`{"jsonrpc":"2.0","id":${call.id},"error":${error}}`);
  }

  #operationOf(params: readonly unknown[]): Operation | undefined {
    const id = readText(params[1], "operationId");
    return this.#open.get(readText(params[0], "followSubscription"))?.operations.get(id);
  }

  async #openPaid(
    call: RpcCall,
    method: FollowMethods["follow"],
    withRuntime: boolean,
  ): Promise<void> {
    const { follows, payer, notifications, onError } = this.#deps;
    const payment = await payer.reserve(method.openMilliCu);
    if ("error" in payment) return this.refuse(call, payment);
    const opened = await follows.open(withRuntime);
    if (opened.kind !== "open") {
      payment.release();
      const error = opened.kind === "error" ? opened.error : internalError;
      return this.refuse(call, { code: upstreamErrorCodes[opened.kind], error });
    }
    const upstream = opened.follow;
    if (this.#isClosed) {
      upstream.close();
      return payment.release();
    }
    const isPaid = await payment.settle([{ method: method.name, costMilliCu: method.openMilliCu }]);
    if (!isPaid || this.#isClosed) {
      upstream.close();
      return this.refuse(call, unavailable);
    }
    const all = this.#open;
    const open: OpenFollow = {
      id: newId(),
      method,
      withRuntime,
      upstream,
      operations: new Map(),
      reserving: 0,
      get isOpen() {
        return all.get(this.id) === this;
      },
      refuse: ({ code }) => this.#stop(open, code),
    };
    all.set(open.id, open);
    this.#answer(call, `"${open.id}"`);
    upstream.start({
      onEvent: guarded((result: string) => notifications.add(open, result), onError),
      onStop: guarded(() => this.#stop(open, "UPSTREAM_ERROR"), onError),
    });
  }

  /** Returns the id of the operation. Undefined if too many operations are running. */
  async #start(
    open: OpenFollow,
    method: FollowMethod,
    parts: readonly FollowOperation[],
  ): Promise<string | Refusal | undefined> {
    const id = newId();
    open.reserving += parts.length;
    const payment = await this.#deps.payer
      .reserve(method.cuMilli * parts.length)
      .finally(() => (open.reserving -= parts.length));
    if ("error" in payment) return payment;
    // The follow may have ended meanwhile.
    if (!open.isOpen) {
      payment.release();
      return undefined;
    }
    const operation: Operation = new Operation({
      id,
      follow: open.upstream,
      method,
      parts,
      payment,
      send: (event) => {
        if (open.isOpen) this.#deps.send(notificationOf(open, `"result":${event}`));
      },
      isBusy: this.#deps.isBusy,
      hold: (chars) => {
        this.#held += chars;
        return this.#held <= maxHeld;
      },
      onEnd: () => open.operations.delete(id),
      onCharge: (written) => {
        const done = written.finally(() => this.#charges.delete(done)).catch(this.#deps.onError);
        this.#charges.add(done);
      },
    });
    open.operations.set(id, operation);
    return operation.start() ? id : undefined;
  }

  /** Sends `stop`, which is free, and ends the follow. */
  #stop(open: OpenFollow, code?: string): void {
    if (!open.isOpen) return;
    this.#remove(open);
    this.#report(open.method.name, code);
    this.#deps.send(notificationOf(open, `"result":${stop}`));
  }

  #remove(open: OpenFollow): void {
    this.#open.delete(open.id);
    for (const operation of open.operations.values()) operation.stop();
    open.upstream.close();
  }

  #refuseBlock(call: RpcCall): void {
    this.refuse(call, { code: "INVALID_PARAMS", error: followErrors.invalidBlock });
  }

  /** `result`: JSON text. */
  #answer(call: RpcCall, result: string): void {
    this.#report(call.method);
    this.#deps.send(`{"jsonrpc":"2.0","id":${call.id},"result":${result}}`);
  }

  #report(name: string, code?: string): void {
    this.#deps.calls.called({ kind: "node", name, isListed: true, code });
  }
}

function runningOf(open: OpenFollow): number {
  let running = open.reserving;
  for (const { size } of open.operations.values()) running += size;
  return running;
}

function newId(): string {
  return randomBytes(12).toString("base64url");
}

type Handler = (
  to: FollowCalls,
  call: RpcCall,
  methods: FollowMethods,
  params: readonly unknown[],
) => void | Promise<void>;

const handlers: ReadonlyMap<string, Handler> = new Map<string, Handler>([
  ["chainHead_v1_follow", (to, call, methods, params) => to.follow(call, methods, params)],
  ["chainHead_v1_unfollow", (to, call, _, params) => to.unfollow(call, params)],
  ["chainHead_v1_unpin", (to, call, _, params) => to.unpin(call, params)],
  ["chainHead_v1_header", (to, call, methods, params) => to.header(call, methods, params)],
  ["chainHead_v1_continue", (to, call, _, params) => to.continueOperation(call, params)],
  ["chainHead_v1_stopOperation", (to, call, _, params) => to.stopOperation(call, params)],
  ["chainHead_v1_body", (to, call, { body }, params) => to.operate(call, body, params)],
  ["chainHead_v1_call", (to, call, methods, params) => to.operate(call, methods.call, params)],
  ["chainHead_v1_storage", (to, call, { storage }, params) => to.operate(call, storage, params)],
]);
