/**
 * One connection: reads its messages, answers each as soon as its charge has been written to disk, and closes a client
 * that does not read. Calls that run when the connection ends are completed and charged, as over HTTP.
 */
import {
  readJsonRpc,
  type Connection,
  type Exchange,
  type Log,
  type Memory,
  type MemoryHold,
  type Reply,
} from "sluice-gateway/plugin";
import type { Charge, Ledger, LedgerRpc, Prover, RpcAnswer } from "sluice-gateway/services";
import { guarded, jsonExcess } from "sluice-gateway/internal/toolkit";
import { ArchiveCalls } from "./archive-calls.ts";
import {
  CallReplies,
  stepFailure,
  tooManyRequests,
  unavailable,
  type CallRefusal,
  type RpcCall,
} from "./call-replies.ts";
import { mayWrite, Payer, type Caller } from "./caller.ts";
import { FollowCalls } from "./follow-calls.ts";
import type { DistinctKeyLimit, KeyLimit } from "./key-limit.ts";
import { PaidNotifications } from "./paid-notifications.ts";
import { Submissions } from "./submissions.ts";
import { Subscriptions } from "./subscriptions.ts";

/** decisions.md section 14. */
export const messageBytes = 1_048_576;
const maxUnsentBytes = 4 * 1_048_576;
/** While the client has this many bytes to read, the gateway reads no further messages from it. */
const pausingBytes = 256 * 1024;
/** Maximum number of messages of one connection that are being answered. Further ones are not read. */
const maxInFlight = 32;
/** A shorter JSON text cannot exceed the limit on members and elements (src/base/json-bounds.ts). */
const maxSimpleBytes = 131_072;

/** Close codes of RFC 6455 section 7.4.1 and its registry. */
const closeCodes = {
  goingAway: 1001,
  unauthorized: 1008,
  internal: 1011,
  tooBusy: 1013,
  tooSlow: 1013,
} as const;

export interface KeyLimits {
  readonly subscriptions: DistinctKeyLimit;
  readonly submissions: KeyLimit;
  readonly follows: KeyLimit;
  readonly operations: KeyLimit;
  readonly archiveReads: KeyLimit;
}

export interface SessionDeps {
  readonly ledger: Ledger;
  readonly caller: Caller;
  readonly charge: Charge;
  readonly x: Pick<Exchange, "admit" | "called" | "facts">;
  readonly log: Log;
  readonly memory: Memory;
  readonly limits: KeyLimits;
  /** True if keys with `ledger:write` may submit extrinsics. */
  readonly write: boolean;
  readonly prover: Prover | undefined;
  /** `X-Sluice-Proof` of the handshake. */
  readonly wantedProof: string | undefined;
}

/**
 * The states of a connection. Each can be followed by any later one.
 *
 * - `open`: messages are read and answered.
 * - `goingAway`: the gateway is stopping. No more messages are read, and running calls are answered.
 * - `closed`: nothing more is read or sent, because the gateway has closed the connection.
 * - `ended`: the connection no longer exists. Running calls are completed and charged.
 */
type State = "open" | "goingAway" | "closed" | "ended";

export class Session {
  /** Resolves when the connection has ended and every call has been charged or released. */
  readonly finished: Promise<void>;
  readonly #finish: () => void;
  readonly #connection: Connection;
  readonly #deps: SessionDeps;
  readonly #payer: Payer;
  readonly #notifications: PaidNotifications;
  readonly #subscriptions: Subscriptions;
  readonly #follows: FollowCalls;
  readonly #submissions: Submissions;
  readonly #archive: ArchiveCalls;
  readonly #replies: CallReplies;
  readonly #messages: HeldMessages;
  #inFlight = 0;
  /** Messages above `maxInFlight` that arrived in the same read of the socket. */
  readonly #waiting: Buffer[] = [];
  #isPaused = false;
  #state: State = "open";

  constructor(connection: Connection, deps: SessionDeps) {
    this.#connection = connection;
    this.#deps = deps;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.finished = promise;
    this.#finish = resolve;
    const onError = (error: unknown): void => this.#fail(error);
    this.#payer = new Payer(deps.caller, deps.charge, () =>
      this.#close(closeCodes.unauthorized, "the key is not valid"),
    );
    const { ledger, limits, caller } = deps;
    this.#messages = new HeldMessages(deps.memory, caller.keyId, () =>
      this.#close(closeCodes.tooBusy, "too many unfinished messages"),
    );
    this.#replies = new CallReplies((message) => this.#send(message), deps.x);
    this.#notifications = new PaidNotifications({
      payer: this.#payer,
      send: this.#replies.send,
      onAdd: (bytes) => this.#limitUnsent(bytes),
      onSent: () => this.#archive.resume(),
      onError,
    });
    const shared = {
      payer: this.#payer,
      notifications: this.#notifications,
      replies: this.#replies,
      onError,
    };
    this.#subscriptions = new Subscriptions({
      ...shared,
      feed: ledger.subscriptions,
      opener: { key: caller.keyId, workspace: caller.workspaceId },
      quotaOf: (name) => limits.subscriptions.of(caller.keyId, name),
    });
    this.#follows = new FollowCalls({
      ...shared,
      follows: ledger.follows,
      followQuota: limits.follows.of(caller.keyId),
      operationQuota: limits.operations.of(caller.keyId),
      isBusy: () => connection.unsentBytes > pausingBytes,
    });
    this.#submissions = new Submissions({
      ...shared,
      ledger: ledger.submissions,
      quota: limits.submissions.of(caller.keyId),
    });
    this.#archive = new ArchiveCalls({
      ...shared,
      archive: ledger.archive,
      quota: limits.archiveReads.of(caller.keyId),
      isBusy: () => connection.unsentBytes + this.#notifications.waitingBytes > pausingBytes,
    });
    connection.onClose = guarded(() => this.#onClose(), onError);
    connection.onDrain = guarded(() => this.#resume(), onError);
    connection.onGoAway = guarded(() => this.#onGoAway(), onError);
    connection.onMessage = guarded((data) => this.#onMessage(data), onError);
  }

  #onMessage(data: Buffer): void {
    if (this.#state !== "open") return;
    const { length } = data;
    const isHeld = this.#messages.add(length);
    if (isHeld && this.#inFlight >= maxInFlight) this.#waiting.push(data);
    else this.#begin(data, isHeld ? length : 0);
  }

  /** `heldBytes`: 0 if the message is refused, because it exceeds a limit on memory. */
  #begin(data: Buffer, heldBytes: number): void {
    this.#inFlight++;
    this.#pauseIfBusy();
    this.#answer(data, heldBytes > 0)
      .catch((error: unknown) => this.#fail(error))
      .finally(() => this.#onAnswered(heldBytes));
  }

  async #answer(data: Buffer, isHeld: boolean): Promise<void> {
    const { ledger, caller, x, prover, wantedProof: wanted } = this.#deps;
    const refused = await x.admit();
    const refusal = isHeld ? refused && errorOf(refused) : tooManyRequests;
    const isComplex = data.length > maxSimpleBytes && jsonExcess(data.toString()) !== undefined;
    const canWrite = this.#deps.write && mentions(data, writingNames) && (await mayWrite(caller));
    const call = isComplex ? undefined : this.#connectionCall(data, canWrite);
    const callRefusal = refusal ?? (call?.isRead === true ? prover?.refusal(wanted) : undefined);
    if (call !== undefined && callRefusal !== undefined)
      return this.#replies.refuse(call, callRefusal);
    if (call !== undefined) return call.run();
    const over = canWrite ? "websocket-write" : "websocket";
    const body = isComplex ? invalidRequest : data;
    const rpc = ledger.rpc(body, over);
    if (refusal !== undefined) return this.#refuse(rpc, refusal);
    return this.#run(prover?.prove({ rpc, body, over, wanted }) ?? rpc);
  }

  /**
   * Returns the call if the message is a single call of a method that needs the connection. Such calls cannot be in a
   * batch.
   */
  #connectionCall(data: Buffer, canWrite: boolean): ConnectionCall | undefined {
    // Only a message that can be such a call is parsed twice.
    if (!canWrite && !mentions(data, connectionNames)) return undefined;
    const body = readJsonRpc(data, 1);
    if (body.kind !== "single" || body.item.kind !== "call") return undefined;
    const { item } = body;
    const writing = canWrite ? [this.#submissions] : [];
    for (const handler of [this.#follows, this.#subscriptions, this.#archive, ...writing]) {
      if (!handler.handles(item.method)) continue;
      return { ...item, isRead: handler !== this.#submissions, run: () => handler.answer(item) };
    }
    return undefined;
  }

  async #run(rpc: LedgerRpc): Promise<void> {
    const payment = await this.#payer.reserve(rpc.costMilliCu);
    if ("error" in payment) return this.#refuse(rpc, payment);
    let answer: RpcAnswer;
    try {
      const { x, memory } = this.#deps;
      const running = rpc.run({ clientLeft: this.#state === "ended", facts: x.facts }, memory);
      answer = running instanceof Promise ? await this.#messages.waitFor(rpc, running) : running;
    } catch (error) {
      payment.release();
      throw error;
    }
    rpc.report(this.#deps.x);
    if (rpc.lines.length === 0) payment.release();
    else if (!(await payment.settle(rpc.lines))) answer = rpc.refuse(unavailable.error);
    this.#send(answer);
  }

  #refuse(rpc: LedgerRpc, { code, error }: CallRefusal): void {
    rpc.report(this.#deps.x, code);
    this.#send(rpc.refuse(error));
  }

  #send(message: RpcAnswer): void {
    if (message === undefined) return;
    this.#limitUnsent(sizeOf(message));
    if (this.#isClosed) return;
    const isWhole = typeof message === "string" || message instanceof Uint8Array;
    this.#connection.send(isWhole ? message : Buffer.concat(message), true);
  }

  /** `more`: number of bytes of messages that have not been sent yet. */
  #limitUnsent(more: number): void {
    if (this.#connection.unsentBytes + more <= maxUnsentBytes) return;
    this.#close(closeCodes.tooSlow, "the client reads too slowly");
  }

  #onAnswered(heldBytes: number): void {
    this.#inFlight--;
    this.#messages.remove(heldBytes);
    const next = this.#isClosed ? undefined : this.#waiting.shift();
    if (next !== undefined) return this.#begin(next, next.length);
    if (this.#state === "ended" && this.#inFlight === 0) return this.#end();
    this.#closeIfDrained();
    this.#pauseIfBusy();
    this.#resume();
  }

  #pauseIfBusy(): void {
    if (this.#isPaused || this.#isClosed || !this.#isBusy()) return;
    this.#isPaused = true;
    this.#connection.pause();
  }

  #resume(): void {
    this.#follows.resume();
    this.#archive.resume();
    if (!this.#isPaused || this.#isClosed || this.#isBusy()) return;
    this.#isPaused = false;
    this.#connection.resume();
  }

  get #isClosed(): boolean {
    return this.#state === "closed" || this.#state === "ended";
  }

  #isBusy(): boolean {
    return this.#inFlight >= maxInFlight || this.#connection.unsentBytes > pausingBytes;
  }

  #onGoAway(): void {
    if (this.#state === "open") this.#state = "goingAway";
    this.#follows.drain();
    this.#archive.drain();
    this.#closeIfDrained();
  }

  #closeIfDrained(): void {
    if (this.#state !== "goingAway" || this.#inFlight > 0) return;
    this.#close(closeCodes.goingAway, "the gateway is stopping");
  }

  #close(code: number, reason: string): void {
    if (this.#isClosed) return;
    this.#state = "closed";
    this.#release();
    this.#connection.close(code, reason);
  }

  #onClose(): void {
    this.#state = "ended";
    this.#release();
    if (this.#inFlight === 0) this.#end();
  }

  #end(): void {
    this.#endSubscriptions().then(this.#finish, (error: unknown) => {
      this.#fail(error);
      this.#finish();
    });
  }

  #release(): void {
    this.#waiting.length = 0;
    this.#messages.release();
    this.#endSubscriptions().catch((error: unknown) => this.#fail(error));
  }

  /** Resolves when all charges have been written. */
  async #endSubscriptions(): Promise<void> {
    this.#subscriptions.close();
    this.#submissions.close();
    this.#archive.close();
    this.#follows.close();
    await Promise.all([this.#follows.settled(), this.#notifications.close()]);
  }

  #fail(error: unknown): void {
    this.#deps.log.error({ err: error }, "a connection to the node proxy failed");
    this.#close(closeCodes.internal, "internal error");
  }
}

function sizeOf(message: Exclude<RpcAnswer, undefined>): number {
  if (typeof message === "string") return Buffer.byteLength(message);
  if (message instanceof Uint8Array) return message.length;
  return message.reduce((sum, { length }) => sum + length, 0);
}

/** Parts of the names of methods that need the connection. */
const connectionNames: readonly string[] = ["ubscribe", "chainHead_v1_", "archive_v1_sto"];
/** Parts of the names of methods that write, or that list the methods. */
const writingNames: readonly string[] = ["author_", "transaction", "rpc_methods"];

function mentions(data: Buffer, names: readonly string[]): boolean {
  return names.some((name) => data.includes(name));
}

interface ConnectionCall extends RpcCall {
  /** True if it reads from the chain. */
  readonly isRead: boolean;
  run(): Promise<void>;
}

function errorOf({ code }: Reply): CallRefusal {
  return code === "GATEWAY_INTERNAL_ERROR" ? stepFailure : tooManyRequests;
}

/** Replaces a message that exceeds the limit on members and elements, so that it is answered as an invalid request. */
const invalidRequest = Buffer.from("0");

/** Counts the bytes of one connection's messages that are being answered or wait for their turn. */
class HeldMessages {
  readonly #hold: MemoryHold;
  readonly #waiting = new Set<LedgerRpc>();
  #isReleased = false;

  /** `onRefused`: called when the connection makes room for another caller. It must call `release`. */
  constructor(memory: Memory, keyId: string, onRefused: () => void) {
    this.#hold = memory.hold(keyId, "request", onRefused);
  }

  /** Returns false if the message must not be kept. */
  add(bytes: number): boolean {
    return this.#hold.resize(this.#hold.bytes + bytes);
  }

  remove(bytes: number): void {
    if (!this.#isReleased) this.#hold.resize(this.#hold.bytes - bytes);
  }

  /** If the messages are released meanwhile, the call keeps nothing of its body. */
  async waitFor(rpc: LedgerRpc, running: Promise<RpcAnswer>): Promise<RpcAnswer> {
    if (this.#isReleased) rpc.release();
    else this.#waiting.add(rpc);
    try {
      return await running;
    } finally {
      this.#waiting.delete(rpc);
    }
  }

  /** The connection has closed. The calls that nodes have received continue, without their bodies. */
  release(): void {
    this.#isReleased = true;
    this.#hold[Symbol.dispose]();
    for (const rpc of this.#waiting) rpc.release();
    this.#waiting.clear();
  }
}
