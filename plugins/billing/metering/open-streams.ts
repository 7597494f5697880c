/** The reservations whose answers are being sent, and the records of their begins and ends that are not on disk yet. */
import type { ReservedFor } from "sluice-gateway/services";
import type { LeasedReservation } from "../leases/leased-reservation.ts";
import type { RecordEncoder } from "./record-encoder.ts";

export type StreamEvent = (encoder: RecordEncoder) => void;

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
