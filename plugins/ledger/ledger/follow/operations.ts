/**
 * The operations of a follow at the node. Equal operations share one. Results at a block never change, so they are
 * cached. A node accepts a few operations at a time; further ones wait here.
 */
import type { Clock } from "sluice-gateway/plugin";
import type {
  ClientOperation,
  FollowOperation,
  OperationEnd,
  OperationListener,
} from "sluice-gateway/services";
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import type { AnswerCache } from "../cache.ts";
import { memberAt } from "../json-part.ts";
import type { FeedAnswer, OnFeedAnswer } from "../feed/feed-connection.ts";
import type { Block } from "./block-tree.ts";
import { SharedOperation, type OperationOwner, type OperationRequest } from "./shared-operation.ts";

/** The number of operations that the specification guarantees. */
const maxRunning = 16;
const maxQueued = 1024;
/** Delay before an operation is sent again if the node did not accept it although none was running. */
const retryMs = 200;

/** Separates the results of one operation in the cache. It cannot occur in JSON text. */
const separator = "\0";

const inaccessible: OperationEnd = { kind: "inaccessible" };
const done: OperationEnd = { kind: "done" };

export interface OperationsDeps {
  readonly clock: Clock;
  /** Time without an event after which an operation has failed. */
  readonly answerMs: number;
  readonly cache: AnswerCache | undefined;
  readonly sharing: boolean;
  /** Sends a call with the node's subscription as first parameter. `params`: JSON text without brackets. */
  readonly send: (method: string, params: string, onAnswer: OnFeedAnswer) => void;
  readonly release: (block: Block) => void;
}

export class Operations implements OperationOwner {
  readonly #deps: OperationsDeps;
  readonly #shared = new Map<string, SharedOperation>();
  readonly #queue = new Set<SharedOperation>();
  readonly #byId = new Map<string, SharedOperation>();
  #running = 0;
  #isBlocked = false;
  #retry: Disposable | undefined;
  #isClosed = false;

  constructor(deps: OperationsDeps) {
    this.#deps = deps;
  }

  /** Undefined if too many operations are waiting. */
  start(
    block: Block,
    operation: FollowOperation,
    listener: OperationListener,
  ): ClientOperation | undefined {
    const request = requestOf(operation);
    const cached = this.#cached(request);
    if (cached !== undefined) return answerLater(cached, listener);
    const running = this.#shared.get(request.key);
    if (running?.kept !== undefined) return running.join(listener);
    if (this.#isClosed || this.#queue.size >= maxQueued) return undefined;
    const shared = new SharedOperation(request, block, this);
    block.holders++;
    if (this.#deps.sharing) this.#shared.set(request.key, shared);
    this.#queue.add(shared);
    const client = shared.join(listener);
    this.#sendNext();
    return client;
  }

  /** `event`: its name. `result`: JSON text. Returns false for an unknown operation. */
  receive(event: string, result: string): boolean {
    const id = parseOrUndefined(memberAt(result, ["operationId"]));
    const operation = typeof id === "string" ? this.#byId.get(id) : undefined;
    // A node may send events of an operation that has just been stopped.
    if (operation === undefined) return false;
    this.#limitTime(operation);
    this.#accept(operation, event, result);
    return true;
  }

  #accept(operation: SharedOperation, event: string, result: string): void {
    switch (event) {
      case "operationBodyDone":
      case "operationCallDone":
      case "operationStorageItems": {
        const value = memberAt(result, [operation.request.member]);
        if (value === undefined) return this.#end(operation, inaccessible);
        operation.result(value);
        if (event !== "operationStorageItems") this.#end(operation, done);
        return;
      }
      case "operationStorageDone":
        return this.#end(operation, done);
      case "operationWaitingForContinue":
        operation.isWaiting = true;
        return this.onResume(operation);
      case "operationError":
        return this.#end(operation, errorEnd(memberAt(result, ["error"])));
      default:
        return this.#end(operation, inaccessible);
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#retry?.[Symbol.dispose]();
    const all = new Set([...this.#queue, ...this.#byId.values(), ...this.#shared.values()]);
    this.#queue.clear();
    this.#byId.clear();
    this.#shared.clear();
    for (const operation of all) operation.end(inaccessible);
  }

  onResume(operation: SharedOperation): void {
    if (this.#isClosed || !operation.isWaiting || operation.isBehind) return;
    operation.isWaiting = false;
    this.#deps.send("chainHead_v1_continue", JSON.stringify(operation.id), () => {});
  }

  onAbandoned(operation: SharedOperation): void {
    if (this.#queue.delete(operation)) this.#deps.release(operation.block);
    else if (operation.id !== undefined) this.#stop(operation.id);
    this.#end(operation, inaccessible);
  }

  #stop(id: string): void {
    this.#deps.send("chainHead_v1_stopOperation", JSON.stringify(id), () => {});
  }

  #sendNext(): void {
    for (const operation of this.#queue) {
      if (this.#isClosed || this.#isBlocked || this.#running >= maxRunning) return;
      this.#queue.delete(operation);
      this.#running++;
      operation.isSent = true;
      // An operation that is sent again does not get more time.
      if (operation.timeout === undefined) this.#limitTime(operation);
      const { method, params } = operation.request;
      this.#deps.send(method, params, (answer) => this.#onStarted(operation, answer));
    }
  }

  #onStarted(operation: SharedOperation, answer: FeedAnswer): void {
    if (this.#isClosed) return;
    if (answer?.kind === "error") {
      this.#deps.release(operation.block);
      this.#running--;
      this.#end(operation, startError(answer.text));
      return this.#sendNext();
    }
    const started = parseOrUndefined(answer?.text);
    const id = isObject(started) ? started["operationId"] : undefined;
    const isRefused = !isObject(started) || started["result"] !== "started";
    if (isRefused || typeof id !== "string" || started["discardedItems"] === 1) {
      this.#running--;
      return this.#refused(operation);
    }
    this.#deps.release(operation.block);
    operation.id = id;
    // The operation was abandoned or timed out before the node answered.
    if (operation.hasEnded) {
      this.#running--;
      this.#stop(id);
      return this.#sendNext();
    }
    this.#byId.set(id, operation);
  }

  /** The operation is sent again when another one has ended. */
  #refused(operation: SharedOperation): void {
    if (operation.hasEnded) return this.#deps.release(operation.block);
    operation.isSent = false;
    const others = [...this.#queue];
    this.#queue.clear();
    for (const each of [operation, ...others]) this.#queue.add(each);
    this.#isBlocked = true;
    this.#retry?.[Symbol.dispose]();
    this.#retry = this.#deps.clock.after(retryMs, () => this.#unblock());
  }

  #unblock(): void {
    this.#isBlocked = false;
    this.#sendNext();
  }

  #end(operation: SharedOperation, end: OperationEnd): void {
    if (operation.hasEnded) return;
    const { key } = operation.request;
    if (this.#shared.get(key) === operation) this.#shared.delete(key);
    if (operation.id !== undefined && this.#byId.delete(operation.id)) this.#running--;
    if (end.kind === "done") this.#store(operation);
    operation.end(end);
    this.#unblock();
  }

  #limitTime(operation: SharedOperation): void {
    operation.timeout?.[Symbol.dispose]();
    operation.timeout = this.#deps.clock.after(this.#deps.answerMs, () => {
      if (this.#queue.delete(operation)) this.#deps.release(operation.block);
      else if (operation.id !== undefined) this.#stop(operation.id);
      this.#end(operation, inaccessible);
    });
  }

  #cached({ method, key }: OperationRequest): string | undefined {
    const { cache } = this.#deps;
    const body = cache?.get(cache.answersOf(method), key);
    return body?.toString();
  }

  #store({ request: { method, key }, kept }: SharedOperation): void {
    const { cache } = this.#deps;
    if (cache === undefined || kept === undefined) return;
    cache.set(cache.answersOf(method), key, kept.join(separator));
  }
}

/** Gives a listener the results from the cache, but not before `start` has returned. */
function answerLater(cached: string, listener: OperationListener): ClientOperation {
  let isStopped = false;
  queueMicrotask(() => {
    if (isStopped) return;
    const results = cached === "" ? [] : cached.split(separator);
    for (const value of results) listener.onResult(value);
    listener.onEnd(done);
  });
  return {
    resume() {},
    stop() {
      isStopped = true;
      return true;
    },
  };
}

function requestOf(operation: FollowOperation): OperationRequest {
  const hash = `"${operation.hash}"`;
  switch (operation.kind) {
    case "body":
      return { key: hash, method: "chainHead_v1_body", params: hash, member: "value" };
    case "call": {
      const { function: name, parameters } = operation;
      const params = `${hash},${JSON.stringify(name)},"${parameters}"`;
      return { key: params, method: "chainHead_v1_call", params, member: "output" };
    }
    case "storage":
    default: {
      const { key, type, childTrie } = operation;
      const items = JSON.stringify([{ key, type }]);
      const params = `${hash},${items},${JSON.stringify(childTrie)}`;
      return { key: params, method: "chainHead_v1_storage", params, member: "items" };
    }
  }
}

function errorEnd(error: string | undefined): OperationEnd {
  return {
    kind: "error",
    error: error?.startsWith('"') === true ? error : '"the operation failed"',
  };
}

/** If the node no longer has the block, another attempt may succeed. */
function startError(text: string): OperationEnd {
  const error = parseOrUndefined(text);
  if (isObject(error) && error["code"] === -32801) return inaccessible;
  return errorEnd(memberAt(text, ["message"]));
}
