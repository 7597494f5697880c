/**
 * Every state can also become `ended`, and no transition leads back from there.
 *
 * | state | meaning | next |
 * |---|---|---|
 * | `steps` | the request runs down the list of steps | `surface`, `reply` |
 * | `surface` | the surface prepares its answer | `reply`, `stream` |
 * | `reply` | a reply of known size runs up the list and is sent | `reply` (a hook has replaced it) |
 * | `stream` | the surface streams its answer or uses a WebSocket | `surface` (its head could not be sent) |
 * | `ended` | nothing more is sent, but the surface has not returned | `settled` |
 * | `settled` | the `settled` hooks have run | |
 */
type State = "steps" | "surface" | "reply" | "stream" | "ended" | "settled";

/** The outcome of an answer that itself reports that it is incomplete. */
export type FailedOutcome = "upstreamFailed" | "timedOut";

export class ExchangeState {
  #state: State = "steps";
  #isSurfaceRunning = false;
  #answerOutcome: FailedOutcome | undefined = undefined;
  #hasFailed = false;
  /** True after the surface has called `end` or `fail` of its stream. */
  hasClosedStream = false;

  enterSurface(): void {
    if (!this.hasEnded) this.#state = "surface";
    this.#isSurfaceRunning = true;
  }

  get isSurfaceRunning(): boolean {
    return this.#isSurfaceRunning;
  }

  /** Records that the surface has returned. Returns true if the exchange was waiting only for it. */
  protected leaveSurface(): boolean {
    const wasRunning = this.#isSurfaceRunning;
    this.#isSurfaceRunning = false;
    return wasRunning && this.#state === "ended";
  }

  /** Throws an Error if an answer has begun. A surface may stream after its client has left; nothing is sent then. */
  protected beginStream(problem: string): void {
    if (this.#state === "surface") this.#state = "stream";
    else if (!this.hasEnded) throw new Error(problem);
  }

  /** Records that the head of a streamed answer could not be sent. The exchange can still be answered with a reply. */
  streamFailed(): void {
    if (this.#state === "stream") this.#state = "surface";
  }

  /** `outcome`: set if the reply itself reports that the answer is incomplete. */
  beginReply(outcome: FailedOutcome | undefined): void {
    if (!this.hasEnded) this.#state = "reply";
    this.setReportedOutcome(outcome);
  }

  /** Returns false if the exchange had failed already. */
  markFailed(): boolean {
    if (this.#hasFailed) return false;
    this.#hasFailed = true;
    return true;
  }

  /** Undefined leaves the outcome as it is. */
  setReportedOutcome(outcome: FailedOutcome | undefined): void {
    this.#answerOutcome = outcome ?? this.#answerOutcome;
  }

  get answerOutcome(): FailedOutcome | undefined {
    return this.#answerOutcome;
  }

  /** Marks the exchange as ended, so that nothing more is sent. Returns false if it already was. */
  protected markEnded(): boolean {
    if (this.hasEnded) return false;
    this.#state = "ended";
    return true;
  }

  protected markSettled(): boolean {
    if (this.hasSettled) return false;
    this.#state = "settled";
    return true;
  }

  get isStreaming(): boolean {
    return this.#state === "stream";
  }

  /** True while no reply and no stream has begun. */
  get isUnanswered(): boolean {
    return this.#state === "steps" || this.#state === "surface";
  }

  get hasEnded(): boolean {
    return this.#state === "ended" || this.#state === "settled";
  }

  get hasSettled(): boolean {
    return this.#state === "settled";
  }
}
