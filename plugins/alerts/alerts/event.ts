/** The events that the webhook receives. The JSON of each type is described in docs/alerts.md. */

export type AlertType =
  | "backend.ejected"
  | "backend.returned"
  | "head.differs"
  | "head.agrees"
  | "reload.failed"
  | "reload.recovered"
  | "disk.low"
  | "disk.recovered"
  | "export.stuck"
  | "export.recovered"
  | "journal.failed"
  | "journal.recovered"
  | "database.down"
  | "database.recovered"
  | "redis.down"
  | "redis.recovered"
  | "gateways.silent"
  | "gateways.returned"
  | "gateway.fenced"
  | "settings.differ"
  | "settings.equal"
  | "clock.wrong"
  | "clock.recovered"
  | "database.damaged"
  | "database.repaired"
  | "journal.missing"
  | "journal.found"
  | "rate.unknown"
  | "rate.known"
  | "certificate.invalid"
  | "certificate.recovered"
  | "chat.unpriced"
  | "limit.reached";

/** An event without the members that all events of a gateway share. */
export interface Alert {
  readonly type: AlertType;
  /** One sentence for people. */
  readonly summary: string;
  readonly data: object;
}

/** Maximum length of a text that comes from outside, such as the name of a worker. */
const maxText = 200;

export function cut(text: string): string {
  return text.length > maxText ? `${text.slice(0, maxText).toWellFormed()}…` : text;
}
