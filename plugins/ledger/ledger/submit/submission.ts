/** One submitted extrinsic at a node. Keeps its notifications until the client is ready for them. */
import type {
  ClientSubmission,
  SubmissionListener,
  SubmissionMethod,
} from "sluice-gateway/services";
import { isObject } from "sluice-gateway/toolkit";
import { parseOrUndefined } from "../json-part.ts";

/** Maximum number of notifications that wait for `start`. A node sends a few per extrinsic. */
const maxWaiting = 64;

/** The states of an extrinsic after which a node sends nothing more. */
const lastStates: Readonly<Record<SubmissionMethod["kind"], ReadonlySet<string>>> = {
  legacy: new Set(["finalized", "finalityTimeout", "usurped", "dropped", "invalid"]),
  watch: new Set(["finalized", "error", "invalid", "dropped"]),
  broadcast: new Set(),
};

export class Submission implements ClientSubmission {
  readonly #kind: SubmissionMethod["kind"];
  readonly #onClose: () => void;
  #listener: SubmissionListener | undefined;
  #waiting: string[] = [];
  #hasEnded = false;
  #isLost = false;

  /** `onClose`: called once, when the node may forget the extrinsic. */
  constructor(kind: SubmissionMethod["kind"], onClose: () => void) {
    this.#kind = kind;
    this.#onClose = onClose;
  }

  start(listener: SubmissionListener): void {
    this.#listener = listener;
    for (const result of this.#waiting.splice(0)) this.receive(result);
    if (this.#isLost) this.#reportLoss();
  }

  close(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#listener = undefined;
    this.#waiting = [];
    this.#onClose();
  }

  /** Accepts a notification of the node. `result`: JSON text. */
  receive(result: string): void {
    if (this.#hasEnded) return;
    const listener = this.#listener;
    if (listener === undefined) {
      if (this.#waiting.length < maxWaiting) this.#waiting.push(result);
      else this.#isLost = true;
      return;
    }
    const isLast = lastStates[this.#kind].has(stateOf(result));
    if (isLast) this.close();
    listener.onNotification(result, isLast);
  }

  /** Called when the connection to the node is lost. */
  lose(): void {
    this.#isLost = true;
    if (this.#listener !== undefined) this.#reportLoss();
  }

  #reportLoss(): void {
    if (this.#hasEnded) return;
    const listener = this.#listener;
    this.close();
    listener?.onLost();
  }
}

/** Returns the state that a notification reports: `{"event":"STATE"}`, `"STATE"` or `{"STATE":…}`. */
function stateOf(result: string): string {
  const value = parseOrUndefined(result);
  if (typeof value === "string") return value;
  if (!isObject(value)) return "";
  const { event } = value;
  return typeof event === "string" ? event : (Object.keys(value)[0] ?? "");
}
