/**
 * The replica's side of the lease protocol. It has no timers and no sockets: its owner passes the time, sends
 * `messages` and passes the replies to it, in any order.
 */
import type { ChargeDetails, Registered, ReplicaMode } from "./ledger.ts";
import { LeasedCredit } from "./leased-credit.ts";
import type { Account, LeasedReservation } from "./leased-reservation.ts";
import { PostLane } from "./post-lane.ts";
import { MessagesInFlight, type Confirmed, type Message, type Reply } from "./replica-messages.ts";

const feedMs = 250;
const fenceMs = 1_000;
/** A message that has failed is sent again after this time. */
const retryMs = 100;
/** A replica that has received no epochs for this time requests no credit. */
const staleMs = 1_000;
/** A replica that the ledger has not answered for this time, or whose charges wait for this time, serves nothing. */
const unavailableMs = 2_000;
/** The same times for a ledger in this process. It is busy for a while, for example with a reload, or it never answers. */
const busyMs = 10_000;
/** A charge that could not be sent for this time is abandoned. It has certainly not been posted. */
const unsentMs = 5_000;
const maxQueued = 50_000;
/** After a message with more charges or scopes, the next one of its kind waits, so that batches are large. */
const smallBatch = 3;
const batchMs = 5;
/** Posted charges are kept for this time, because a failover of the ledger may lose them. */
const keptMs = 60_000;

/**
 * | state      | meaning                                                                      | next       |
 * | ---------- | ---------------------------------------------------------------------------- | ---------- |
 * | `serving`  | reservations are accepted while the replica is registered                    | `draining` |
 * | `draining` | it leaves the ledger when its reservations have ended and charges are posted | `gone`     |
 * | `gone`     | it has left                                                                  |            |
 *
 * A replica that the ledger has fenced registers again in the same state.
 */
type State = "serving" | "draining" | "gone";

export class LedgerReplica {
  readonly #name: string;
  readonly #mode: ReplicaMode;
  readonly #isInProcess: boolean;
  readonly #credit = new LeasedCredit((settled) => this.#lane.add(settled, this.#now));
  readonly #lane: PostLane;
  #replica: number | undefined;
  readonly #inFlight = new MessagesInFlight();
  #lastFeedAt = -Infinity;
  #posted = 0;
  #leaseNo = 0;
  /** The ledger's clock minus the clock of this replica. */
  #offsetMs: number | undefined;
  #state: State = "serving";
  #now = 0;
  /** Registrations that the ledger has ended, epochs to answer, and times at which the ledger had lost commits. */
  readonly counters = { fenced: 0, epochs: 0, wentBack: 0 };

  /** `isInProcess`: true if the ledger is in this process: messages are cheap, and it never loses a commit. */
  constructor(name: string, mode: ReplicaMode, isInProcess = false) {
    this.#name = name;
    this.#isInProcess = isInProcess;
    this.#lane = new PostLane(isInProcess ? 0 : keptMs);
    this.#mode = mode;
  }

  get replica(): number | undefined {
    return this.#replica;
  }

  get credit(): LeasedCredit {
    return this.#credit;
  }

  get isGone(): boolean {
    return this.#state === "gone";
  }

  get queuedCharges(): number {
    return this.#lane.queuedCharges;
  }

  /** False if a charge might wait for a ledger that does not answer. */
  isAvailable(now: number): boolean {
    if (this.#replica === undefined || this.#state !== "serving") return false;
    const { queuedCharges, queuedSince = now } = this.#lane;
    if (queuedCharges > maxQueued) return false;
    if (this.#mode === "async") return true;
    const limitMs = this.#isInProcess ? busyMs : unavailableMs;
    return now - this.#lastFeedAt <= limitMs && now - queuedSince <= limitMs;
  }

  reserve(now: number, account: Account, costMilliCu: number, isForced = false): LeasedReservation {
    this.#moveTo(now);
    return this.#credit.reserve(now, account, costMilliCu, isForced);
  }

  settle(
    now: number,
    reservation: LeasedReservation,
    lines: readonly ChargeDetails[],
    more: readonly LeasedReservation[] = [],
  ): void {
    this.#moveTo(now);
    this.#credit.settle(reservation, lines, more);
  }

  release(reservation: LeasedReservation): void {
    this.#credit.release(reservation);
  }

  /** Asks for epochs with the next messages, because another replica waits for the answer. */
  feedSoon(now: number): void {
    this.#inFlight.wait("feed", now);
  }

  drain(): void {
    if (this.#state === "serving") this.#state = "draining";
  }

  /** Returns the messages to send now. Call it after every event, and at least every 100 ms. */
  messages(now: number): readonly Message[] {
    if (this.#state === "gone") return [];
    this.#moveTo(now);
    this.#findLost(now);
    this.#giveUpUnsent(now);
    this.#credit.sweep(now);
    const messages: Message[] = [];
    const replica = this.#replica;
    if (replica !== undefined) this.#addMessages(now, replica, messages);
    else if (this.#inFlight.maySend("register", now)) {
      const no = this.#send("register", now);
      messages.push({ no, kind: "register", name: this.#name, mode: this.#mode });
    }
    return messages;
  }

  /** Abandons charges that are queued behind a batch without a reply, because a caller waits for them. */
  #giveUpUnsent(now: number): void {
    const isBlocked = this.#replica === undefined || !this.#inFlight.maySend("post", now);
    if (this.#mode !== "settled" || !isBlocked) return;
    for (const late of this.#lane.removeQueued(now - unsentMs)) this.#credit.takeBack(late);
  }

  #addMessages(now: number, replica: number, messages: Message[]): void {
    const pauseMs = this.#isInProcess ? 0 : batchMs;
    for (const kind of ["feed", "fence"] as const) {
      if (!this.#inFlight.maySend(kind, now)) continue;
      this.#inFlight.wait(kind, now + (kind === "feed" ? feedMs : fenceMs));
      messages.push({ no: this.#send(kind, now), kind, replica });
    }
    const limitMs = this.#isInProcess ? busyMs : staleMs;
    const mayLease = this.#inFlight.maySend("lease", now) && now - this.#lastFeedAt <= limitMs;
    const wants = mayLease ? this.#credit.request(now) : [];
    if (wants.length > 0) {
      const no = this.#send("lease", now);
      if (wants.length > smallBatch) this.#inFlight.wait("lease", now + pauseMs);
      messages.push({ no, kind: "lease", request: { replica, leaseNo: no, wants } });
    }
    const batch = this.#inFlight.maySend("post", now) ? this.#lane.request() : undefined;
    if (batch !== undefined) {
      const { first, last, charges } = batch;
      const no = this.#send("post", now);
      if (charges.length > smallBatch) this.#inFlight.wait("post", now + pauseMs);
      messages.push({ no, kind: "post", request: { replica, first, last, charges } });
    }
    const isDone =
      this.#state === "draining" && this.#credit.reservations === 0 && this.#lane.isEmpty;
    // A lease request that arrives after this message would be ignored, and one before it must be answered first.
    const mayLeave = isDone && !this.#inFlight.has("lease") && this.#inFlight.maySend("leave", now);
    if (mayLeave) {
      messages.push({ no: this.#send("leave", now), kind: "leave", replica });
    }
  }

  /** A reply to a message that counts as lost is ignored: after a pause of the process, its numbers may be old. */
  receive(now: number, message: Reply): void {
    this.#findLost(now);
    const { kind, reply } = message;
    const sent = this.#inFlight.remove(message);
    if (sent === undefined || this.#state === "gone" || kind === "fence") return;
    this.#offsetMs = reply.time - now;
    this.#moveTo(now);
    if (kind === "register") this.#register(now, reply);
    else if (reply.state === "gone") this.#state = "gone";
    else if (reply.state === "live") this.#receiveLive(now, sent, message);
    else this.#startAgain(now, reply.posted);
  }

  /** The message counts as lost. A reply that arrives nevertheless is ignored. */
  failed(now: number, message: Message): void {
    if (this.#inFlight.remove(message) === undefined) return;
    this.#inFlight.wait(message.kind, now + retryMs);
    // A ledger in this process answers with an error while its charges cannot be recorded.
    if (this.#isInProcess && message.kind === "feed") this.#lastFeedAt = -Infinity;
    this.#lose(now, message.kind);
  }

  #register(now: number, reply: Registered): void {
    this.#inFlight.continueAfter(reply.leaseNo);
    this.#posted = reply.posted;
    this.#leaseNo = reply.leaseNo;
    this.#inFlight.wait("feed", now);
    this.#replica = reply.replica;
  }

  #receiveLive(
    now: number,
    sent: Confirmed,
    { kind, reply }: Exclude<Reply, { kind: "register" | "fence" }>,
  ): void {
    // Numbers that are lower than those confirmed before mean that the ledger was restored from a backup.
    const hasLost =
      reply.leaseNo < Math.min(sent.leaseNo, this.#leaseNo) ||
      reply.posted < Math.min(sent.posted, this.#posted);
    if (hasLost) this.counters.wentBack++;
    if (reply.leaseNo < sent.leaseNo) this.#credit.stateAgain();
    this.#leaseNo = reply.leaseNo;
    if (kind === "post" && reply.isLost === true) {
      for (const lost of this.#lane.drop()) this.#credit.takeBack(lost);
    } else if (kind === "post") {
      const posted = this.#lane.receive(now, reply);
      if (posted === undefined) return this.#startAgain(now, reply.posted);
      this.#confirm(posted);
    } else if (reply.posted < sent.posted && !this.#lane.wentBack(reply.posted)) {
      return this.#startAgain(now, reply.posted);
    }
    this.#posted = reply.posted;
    if (kind === "lease") this.#credit.receive(now, reply.granted);
    if (kind !== "feed") return;
    this.#lastFeedAt = now;
    this.counters.epochs += reply.epochs.length;
    this.#credit.sawEpochs(reply.epochs);
  }

  /** Charges that the ledger has not posted will certainly never be accepted, so they must be reserved again. */
  #startAgain(now: number, posted: number): void {
    this.counters.fenced++;
    this.#replica = undefined;
    this.#inFlight.clear();
    const settled = this.#lane.restart(posted);
    this.#confirm(settled.posted);
    this.#credit.restart(now, settled.unposted);
  }

  #confirm(posted: readonly LeasedReservation[]): void {
    for (const each of posted) if (each.state !== "posted") this.#credit.posted(each);
  }

  #moveTo(now: number): void {
    this.#now = now;
    if (this.#offsetMs !== undefined) this.#credit.moveTo(now + this.#offsetMs);
  }

  #send(kind: Message["kind"], now: number): number {
    return this.#inFlight.add(kind, now, { posted: this.#posted, leaseNo: this.#leaseNo });
  }

  #findLost(now: number): void {
    for (const kind of this.#inFlight.removeLost(now)) this.#lose(now, kind);
  }

  #lose(now: number, kind: Message["kind"]): void {
    if (kind === "lease") this.#credit.receive(now, undefined);
    if (kind === "post") this.#lane.lost();
  }
}
