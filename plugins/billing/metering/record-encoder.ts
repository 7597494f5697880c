/**
 * Encodes charges, and the begins and ends of streams, as the records of one commit, in memory that the journal thread
 * shares. Names that recur are numbers, which the commit that first uses them introduces.
 */
import type { ReservedFor } from "sluice-gateway/services";
import type { LeasedReservation } from "../leases/leased-reservation.ts";
import type { LeasedCharge } from "../leases/ledger.ts";
import { chargeText, withPricing } from "./charge-text.ts";
import type { Split } from "./month-draws.ts";
import {
  maxNameBytes,
  maxRecordBytes,
  writeCharge,
  writeClosed,
  writeIntent,
  writeName,
  type Target,
} from "./records.ts";

export type StreamEvent = (encoder: RecordEncoder) => void;

/** A charge may introduce seven names: key, workspace, surface, method, model, outcome and route. */
const maxBytes = maxRecordBytes + 7 * maxNameBytes;

export class RecordEncoder {
  readonly #names: Map<string, number>;
  #nextName = 1;
  /** Names that no commit on disk has introduced yet. */
  #newNames: string[] = [];
  readonly #memory: SharedArrayBuffer;
  #target: Target;
  bytes = 0;
  rows = 0;

  /** `memory`: it grows when it is full. */
  constructor(names: ReadonlyMap<string, number>, memory: SharedArrayBuffer) {
    this.#names = new Map(names);
    this.#memory = memory;
    this.#target = targetOf(memory);
    for (const id of this.#names.values()) this.#nextName = Math.max(this.#nextName, id + 1);
  }

  /** `intent`: number of the stream that ends with this charge. 0 if there is none. */
  charge({ details, keyId, workspaceId, time }: LeasedCharge, split: Split, intent: number): void {
    this.#makeRoom();
    const { about, line } = details;
    const key = this.#number(keyId);
    const workspace = this.#number(workspaceId);
    const surface = this.#number(line.surface);
    const method = this.#number(line.method);
    const model = line.model === undefined ? 0 : this.#number(line.model);
    const outcome = line.outcome === undefined ? 0 : this.#number(line.outcome);
    const route = about.route === undefined ? 0 : this.#number(about.route);
    this.#added(
      writeCharge(this.#target, this.bytes, {
        key,
        workspace,
        surface,
        method,
        model,
        outcome,
        time,
        split,
        inputTokens: line.inputTokens ?? 0,
        outputTokens: line.outputTokens ?? 0,
        cachedTokens: line.cachedTokens ?? 0,
        reasoningTokens: line.reasoningTokens ?? 0,
        estimated: line.estimated === true,
        route,
        intent,
        text: withPricing(chargeText(about.requestId, about.agent), line.pricing),
      }),
    );
  }

  begin(
    intent: number,
    time: number,
    account: { readonly keyId: string; readonly workspaceId: string },
    reservedMilliCu: number,
    { requestId, surface: surfaceName }: ReservedFor,
  ): void {
    this.#makeRoom();
    const key = this.#number(account.keyId);
    const workspace = this.#number(account.workspaceId);
    const surface = this.#number(surfaceName);
    const fields = { key, workspace, surface, time, intent, reservedMilliCu, requestId };
    this.#added(writeIntent(this.#target, this.bytes, fields));
  }

  end(intent: number, time: number, why: number): void {
    this.#makeRoom();
    this.#added(writeClosed(this.#target, this.bytes, time, intent, why));
  }

  clear(): void {
    this.bytes = 0;
    this.rows = 0;
  }

  /** Called when the records are on disk. */
  saved(): void {
    this.#newNames = [];
  }

  /** Called when the records will never be on disk. Names that they introduce are introduced again. */
  discard(): void {
    for (const name of this.#newNames) this.#names.delete(name);
    this.#newNames = [];
  }

  #number(name: string): number {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    const id = this.#nextName++;
    this.#names.set(name, id);
    this.#newNames.push(name);
    this.bytes += writeName(this.#target, this.bytes, id, name);
    return id;
  }

  #added(bytes: number): void {
    this.bytes += bytes;
    this.rows++;
  }

  /** Throws RangeError if the memory can grow no more. */
  #makeRoom(): void {
    const { length } = this.#target.bytes;
    if (this.bytes + maxBytes <= length) return;
    this.#memory.grow(2 * length);
    this.#target = targetOf(this.#memory);
  }
}

/** The reservations whose answers are being sent, and the records of their begins and ends that are not on disk yet. */
export class OpenStreams {
  #next = 1;
  #events: StreamEvent[] = [];

  get waiting(): number {
    return this.#events.length;
  }

  /** `time`: milliseconds since 1970. */
  begin(reservation: LeasedReservation, time: number, about: ReservedFor): void {
    const stream = this.#next++;
    // A map by reservation would keep ended exchanges alive through its earlier tables.
    reservation.stream = stream;
    const { account, costMilliCu } = reservation;
    this.#events.push((encoder) => encoder.begin(stream, time, account, costMilliCu, about));
  }

  /** Returns false if the reservation has no stream. */
  end(reservation: LeasedReservation, time: number, why: number): boolean {
    const { stream } = reservation;
    if (stream === 0) return false;
    reservation.stream = 0;
    this.#events.push((encoder) => encoder.end(stream, time, why));
    return true;
  }

  encode(encoder: RecordEncoder): readonly StreamEvent[] {
    const events = this.#events;
    this.#events = [];
    for (const event of events) event(encoder);
    return events;
  }

  /** Called when the records of events will never be on disk. They are encoded again. */
  takeBack(events: readonly StreamEvent[]): void {
    this.#events = [...events, ...this.#events];
  }
}

/** Views without a length would read that of the memory at every access, which takes four times as long. */
function targetOf(memory: SharedArrayBuffer): Target {
  const { byteLength } = memory;
  return { bytes: Buffer.from(memory, 0, byteLength), view: new DataView(memory, 0, byteLength) };
}
