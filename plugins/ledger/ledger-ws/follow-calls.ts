import type {
  FollowMethod,
  FollowMethods,
  LedgerFollows,
  SubscriptionMethod,
} from "sluice-gateway/services";
import {
  followErrors,
  tooManyFollows,
  unavailable,
  upstreamErrorCodes,
  type RpcCall,
} from "./call-replies.ts";
import { FollowUpstream, type Operation } from "./follow-upstream.ts";
import type { Quota } from "./key-limit.ts";
import {
  OpenSubscriptions,
  type OpenSubscription,
  type SubscriptionDeps,
} from "./open-subscriptions.ts";
import { notificationOf } from "./paid-notifications.ts";
import {
  answerParams,
  readBoolean,
  readHash,
  readHashes,
  readOperation,
  readText,
} from "./rpc-params.ts";

/** Maximum number of follows of a connection (decisions.md section 14). */
const maxFollows = 2;
/** Maximum number of characters of results that wait for the client. */
const maxHeld = 16 * 1_048_576;

const limitReached = '{"result":"limitReached"}';
const stop = '"result":{"event":"stop"}';

export interface FollowCallsDeps extends SubscriptionDeps {
  readonly follows: LedgerFollows;
  readonly followQuota: Quota;
  readonly operationQuota: Quota;
  readonly isBusy: () => boolean;
}

type OpenFollow = OpenSubscription<SubscriptionMethod, FollowUpstream>;

export class FollowCalls extends OpenSubscriptions<SubscriptionMethod, FollowUpstream> {
  readonly #deps: FollowCallsDeps;
  readonly #charges = new Set<Promise<unknown>>();
  #held = 0;

  constructor(deps: FollowCallsDeps) {
    super(deps, {
      max: maxFollows,
      quotaOf: () => deps.followQuota,
      isAlwaysCharged: false,
      refuseFull: (call, _, full) =>
        deps.replies.refuse(call, { code: "LIMIT_REACHED", error: tooManyFollows(full) }),
      lastMember: () => stop,
    });
    this.#deps = deps;
  }

  handles(method: string): boolean {
    return this.#deps.follows.methods !== undefined && handlers.has(method);
  }

  async answer(call: RpcCall): Promise<void> {
    const { follows, replies } = this.#deps;
    const { methods } = follows;
    const handler = handlers.get(call.method);
    if (methods === undefined || handler === undefined) return;
    await answerParams(call, replies, (params) => handler(this, call, methods, params));
  }

  /** Resolves when all charges have been written. Call it after `close`. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#charges);
  }

  /** Called when the client has read what was sent. */
  resume(): void {
    for (const { upstream } of this.values()) upstream.resume();
  }

  follow(call: RpcCall, { follow }: FollowMethods, params: readonly unknown[]): Promise<void> {
    const { follows, payer, operationQuota: quota, isBusy } = this.#deps;
    const withRuntime = readBoolean(params[0], "withRuntime");
    return this.open(call, follow, async () => {
      const opened = await follows.open(withRuntime);
      if (opened.kind !== "open") return opened;
      const subscription = new FollowUpstream(opened.subscription, withRuntime, {
        payer,
        quota,
        isBusy,
        hold: (chars) => {
          this.#held += chars;
          return this.#held <= maxHeld;
        },
        onCharge: (written) => this.#noteCharge(written),
      });
      return { kind: "open", subscription };
    });
  }

  unfollow(call: RpcCall, params: readonly unknown[]): void {
    this.remove(readText(params[0], "followSubscription"));
    this.#deps.replies.answer(call, "null");
  }

  unpin(call: RpcCall, params: readonly unknown[]): void {
    const open = this.#openFollow(params);
    const hashes = readHashes(params[1], "hashOrHashes");
    if (new Set(hashes).size < hashes.length) {
      return this.#refuse(call, followErrors.duplicateHashes);
    }
    if (open !== undefined && !open.upstream.follow.unpin(hashes)) {
      return this.#refuse(call, followErrors.invalidBlock);
    }
    this.#deps.replies.answer(call, "null");
  }

  async header(
    call: RpcCall,
    { header }: FollowMethods,
    params: readonly unknown[],
  ): Promise<void> {
    const { payer, replies } = this.#deps;
    const open = this.#openFollow(params);
    const hash = readHash(params[1], "hash");
    if (open === undefined) return replies.answer(call, "null");
    const { follow } = open.upstream;
    if (!follow.hasPinned(hash)) return this.#refuse(call, followErrors.invalidBlock);
    const payment = await payer.reserve(header.cuMilli);
    if ("error" in payment) return replies.refuse(call, payment);
    const answer = await follow.header(hash);
    if (answer === undefined) {
      payment.release();
      // The follow has ended because the node was lost. The specification defines this answer for that case.
      return replies.answer(call, "null");
    }
    if (!(await payment.settle([{ method: header.name, costMilliCu: header.cuMilli }]))) {
      return replies.refuse(call, unavailable);
    }
    if (answer.kind === "result") return replies.answer(call, answer.text);
    replies.refuse(call, { code: upstreamErrorCodes.error, error: answer.text });
  }

  async operate(call: RpcCall, method: FollowMethod, params: readonly unknown[]): Promise<void> {
    const { replies } = this.#deps;
    const open = this.#openFollow(params);
    const hash = readHash(params[1], "hash");
    const parts = readOperation(method.name, hash, params);
    if (open === undefined) return replies.answer(call, limitReached);
    const { upstream } = open;
    if (!upstream.follow.hasPinned(hash)) return this.#refuse(call, followErrors.invalidBlock);
    if (method.name === "chainHead_v1_call" && !upstream.withRuntime) {
      return this.#refuse(call, followErrors.withoutRuntime);
    }
    const started = await upstream.operate(method, parts, (event) =>
      replies.send(notificationOf(open, `"result":${event}`)),
    );
    if (started === undefined) return replies.answer(call, limitReached);
    if ("error" in started) return replies.refuse(call, started);
    const isStorage = method.name === "chainHead_v1_storage";
    const discarded = isStorage ? `,"discardedItems":${parts.length - started.parts}` : "";
    replies.answer(call, `{"result":"started","operationId":"${started.id}"${discarded}}`);
  }

  continueOperation(call: RpcCall, params: readonly unknown[]): void {
    const operation = this.#operationOf(params);
    if (operation?.isPaused === false) return this.#refuse(call, followErrors.notWaiting);
    this.#deps.replies.answer(call, "null");
    operation?.resume(true);
  }

  stopOperation(call: RpcCall, params: readonly unknown[]): void {
    this.#operationOf(params)?.stop();
    this.#deps.replies.answer(call, "null");
  }

  #openFollow(params: readonly unknown[]): OpenFollow | undefined {
    return this.get(readText(params[0], "followSubscription"));
  }

  #operationOf(params: readonly unknown[]): Operation | undefined {
    const id = readText(params[1], "operationId");
    return this.#openFollow(params)?.upstream.operation(id);
  }

  #refuse(call: RpcCall, error: string): void {
    this.#deps.replies.refuse(call, { code: "INVALID_PARAMS", error });
  }

  #noteCharge(written: Promise<unknown>): void {
    const done = written.finally(() => this.#charges.delete(done)).catch(this.#deps.onError);
    this.#charges.add(done);
  }
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
