import { randomBytes } from "node:crypto";
import type {
  ClientFollow,
  ClientOperation,
  ClientSubscription,
  FollowMethod,
  FollowOperation,
  NotificationListener,
  OperationEnd,
  OperationListener,
} from "sluice-gateway/services";
import type { Refusal } from "./call-replies.ts";
import type { Quota } from "./key-limit.ts";
import type { Payer, Payment } from "./caller.ts";

/** Maximum number of operations of a follow (decisions.md section 14). */
const maxOperations = 16;

export interface FollowUpstreamDeps extends OperationOutput {
  readonly payer: Payer;
  /** The key's limit on operations. Each item of a storage operation counts as one. */
  readonly quota: Quota;
}

/** `parts`: can be smaller than the requested number. */
interface Started {
  readonly id: string;
  readonly parts: number;
}

export class FollowUpstream implements ClientSubscription {
  readonly follow: ClientFollow;
  readonly withRuntime: boolean;
  readonly #deps: FollowUpstreamDeps;
  readonly #operations = new Map<string, Operation>();
  #running = 0;
  #isClosed = false;

  constructor(follow: ClientFollow, withRuntime: boolean, deps: FollowUpstreamDeps) {
    this.follow = follow;
    this.withRuntime = withRuntime;
    this.#deps = deps;
  }

  start(listener: NotificationListener): void {
    this.follow.start(listener);
  }

  close(): void {
    this.#isClosed = true;
    for (const operation of this.#operations.values()) operation.stop();
    this.follow.close();
  }

  operation(id: string): Operation | undefined {
    return this.#operations.get(id);
  }

  resume(): void {
    for (const operation of this.#operations.values()) operation.resume();
  }

  /** Starts an operation with as many of the parts as the limits allow. Undefined if they allow none. */
  async operate(
    method: FollowMethod,
    all: readonly FollowOperation[],
    send: (event: string) => void,
  ): Promise<Started | Refusal | undefined> {
    const { payer, quota } = this.#deps;
    const count = quota.take(Math.min(all.length, maxOperations - this.#running));
    if (count === 0) return undefined;
    this.#running += count;
    let hasStarted = false;
    const end = (): void => {
      this.#running -= count;
      quota.release(count);
    };
    try {
      const payment = await payer.reserve(method.cuMilli * count);
      if ("error" in payment) return payment;
      // The follow may have ended in the meantime.
      if (this.#isClosed) {
        payment.release();
        return undefined;
      }
      const id = randomBytes(12).toString("base64url");
      const operation = new Operation({
        ...this.#deps,
        id,
        follow: this.follow,
        method,
        parts: all.slice(0, count),
        payment,
        send: (event) => {
          if (!this.#isClosed) send(event);
        },
        onEnd: () => {
          this.#operations.delete(id);
          end();
        },
      });
      hasStarted = true;
      this.#operations.set(id, operation);
      return operation.start() ? { id, parts: count } : undefined;
    } finally {
      if (!hasStarted) end();
    }
  }
}

/**
 * After more than this number of characters of results, an operation that can pause waits for `chainHead_v1_continue`.
 * While more characters wait for the client, the node must wait.
 */
const maxPerContinue = 1_048_576;

const doneEvents = {
  body: "operationBodyDone",
  call: "operationCallDone",
  storage: "operationStorageItems",
} as const;
const members = { body: "value", call: "output", storage: "items" } as const;

interface OperationOutput {
  /** True while so much output waits for the client that nothing more is sent. */
  readonly isBusy: () => boolean;
  /** Changes the number of characters that wait for the client. Returns false if there are too many. */
  readonly hold: (chars: number) => boolean;
  readonly onCharge: (written: Promise<unknown>) => void;
}

interface OperationDeps extends OperationOutput {
  readonly id: string;
  readonly follow: ClientFollow;
  readonly method: FollowMethod;
  /** The parts of the operation: one, or the items of `chainHead_v1_storage`. */
  readonly parts: readonly FollowOperation[];
  readonly payment: Payment;
  readonly send: (event: string) => void;
  /** Called once, when the operation no longer counts as one of the client. */
  readonly onEnd: () => void;
}

/**
 * One operation of a client's follow. It is charged before its first result is sent; without a result, it costs
 * nothing. Results wait here while the client does not read.
 */
export class Operation {
  readonly size: number;
  readonly #deps: OperationDeps;
  readonly #kind: FollowOperation["kind"];
  readonly #running = new Set<ClientOperation>();
  /** The specification allows a pause only for descendants. */
  readonly #canPause: boolean;
  #remaining: number;
  #events: string[] = [];
  #held = 0;
  /** Number of characters sent since the client last continued. */
  #sent = 0;
  #payment: "reserved" | "writing" | "written" | "released" = "reserved";
  #isComplete = false;
  #hasEnded = false;
  /** True after `operationWaitingForContinue`. */
  isPaused = false;

  constructor(deps: OperationDeps) {
    this.#deps = deps;
    this.#kind = deps.parts[0]?.kind ?? "storage";
    this.size = deps.parts.length;
    this.#canPause = deps.parts.some(
      (part) => part.kind === "storage" && part.type.startsWith("descendants"),
    );
    this.#remaining = this.size;
  }

  /** Returns false, and releases the payment, if too many operations wait for the node. */
  start(): boolean {
    for (const part of this.#deps.parts) {
      const running = this.#deps.follow.operate(part, this.#listener(part));
      if (running === undefined) {
        // Not charged, although a node may have started the parts before this one.
        for (const started of this.#running) started.stop();
        this.#end();
        return false;
      }
      this.#running.add(running);
    }
    return true;
  }

  /** Continues after `operationWaitingForContinue`, or after the client has read. */
  resume(isContinued = false): void {
    if (isContinued) {
      this.isPaused = false;
      this.#sent = 0;
    }
    this.#sendEvents();
  }

  /** Ends the operation without an event. The operation is charged if a node has started it. */
  stop(): void {
    if (this.#hasEnded) return;
    let hasBegun = false;
    for (const running of this.#running) hasBegun = running.stop() || hasBegun;
    if (hasBegun) void this.#charge();
    this.#end();
  }

  #listener(part: FollowOperation): OperationListener {
    const isBehind = (): boolean => this.isPaused || this.#held > maxPerContinue;
    return {
      get isBehind() {
        return isBehind();
      },
      onResult: (value) => {
        if (this.#isComplete) return;
        this.#add(`"event":"${doneEvents[part.kind]}"`, `,"${members[part.kind]}":${value}`);
      },
      onEnd: (end) => this.#onPartEnd(end),
    };
  }

  #onPartEnd(end: OperationEnd): void {
    if (this.#isComplete || this.#hasEnded) return;
    if (end.kind === "inaccessible") return this.#fail();
    if (end.kind === "error")
      return this.#complete(`"event":"operationError"`, `,"error":${end.error}`);
    this.#remaining--;
    if (this.#remaining > 0) return;
    if (this.#kind === "storage") return this.#complete(`"event":"operationStorageDone"`);
    this.#isComplete = true;
    this.#sendEvents();
  }

  #complete(event: string, more = ""): void {
    this.#isComplete = true;
    this.#add(event, more);
  }

  /** Ends the operation with `operationInaccessible`. It is free unless results were sent. */
  #fail(): void {
    if (this.#hasEnded) return;
    for (const running of this.#running) running.stop();
    this.#end();
    this.#deps.send(`{"event":"operationInaccessible","operationId":"${this.#deps.id}"}`);
  }

  #add(event: string, more: string): void {
    if (this.#hasEnded) return;
    const text = `{${event},"operationId":"${this.#deps.id}"${more}}`;
    this.#events.push(text);
    this.#held += text.length;
    if (!this.#deps.hold(text.length)) return this.#fail();
    this.#sendEvents();
  }

  #sendEvents(): void {
    if (this.#hasEnded || (this.#events.length === 0 && !this.#isComplete)) return;
    if (this.#payment !== "written") return void this.#charge();
    while (this.#events.length > 0 && !this.isPaused && !this.#deps.isBusy()) {
      const text = this.#events.shift() ?? "";
      this.#held -= text.length;
      this.#sent += text.length;
      this.#deps.hold(-text.length);
      this.#deps.send(text);
      if (this.#canPause && this.#events.length > 0 && this.#sent > maxPerContinue) this.#pause();
    }
    if (this.#isComplete && this.#events.length === 0) return this.#end();
    if (!this.isPaused) for (const running of this.#running) running.resume();
  }

  #pause(): void {
    this.isPaused = true;
    this.#deps.send(`{"event":"operationWaitingForContinue","operationId":"${this.#deps.id}"}`);
  }

  async #charge(): Promise<void> {
    if (this.#payment !== "reserved") return;
    this.#payment = "writing";
    const { payment, method, parts, onCharge } = this.#deps;
    const lines = [{ method: method.name, costMilliCu: method.cuMilli * parts.length }];
    const written = payment.settle(lines);
    onCharge(written);
    const isWritten = await written.catch(() => false);
    this.#payment = "written";
    if (isWritten) this.#sendEvents();
    else this.#fail();
  }

  #end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#events = [];
    this.#deps.hold(-this.#held);
    this.#held = 0;
    if (this.#payment === "reserved") {
      this.#payment = "released";
      this.#deps.payment.release();
    }
    this.#deps.onEnd();
  }
}
