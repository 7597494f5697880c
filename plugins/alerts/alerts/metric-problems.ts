import type { RunningGateway } from "sluice-gateway/plugin";
import type { Alert, AlertType } from "./event.ts";
import type { Problem } from "./problems.ts";

type WithMetrics = Pick<RunningGateway, "metric">;

interface WatchedState {
  readonly metric: string;
  /** Value of the label `state`, for a metric that has it. */
  readonly state?: string;
  /** Returns the alert for a value that is a problem. `now`: milliseconds since 1970. */
  problem(value: number, now: number): Omit<Alert, "type"> | undefined;
  readonly raised: AlertType;
  readonly resolved: AlertType;
  readonly resolvedSummary: string;
  /** Time that the problem must last before it is reported (default 0). */
  readonly afterMs?: number;
}

/** Difference between the clocks that is reported, and that leases log, too. */
const maxClockOffsetSeconds = 1;
const maxClockBehindSeconds = 60;
/** A certificate is reported if it expires within this time, as in the log and in `sluice check --strict`. */
const certificateDays = 10;

const watched: readonly WatchedState[] = [
  {
    metric: "sluice_journal_writable",
    problem: ifZero("charges cannot be written to the journal, and metered requests are refused"),
    raised: "journal.failed",
    resolved: "journal.recovered",
    resolvedSummary: "charges are written to the journal again",
  },
  {
    metric: "sluice_store_postgres_up",
    problem: ifZero("PostgreSQL does not answer"),
    raised: "database.down",
    resolved: "database.recovered",
    resolvedSummary: "PostgreSQL answers again",
  },
  {
    metric: "sluice_store_redis_up",
    problem: ifZero("Redis does not answer"),
    raised: "redis.down",
    resolved: "redis.recovered",
    resolvedSummary: "Redis answers again",
  },
  {
    metric: "sluice_replicas",
    state: "silent",
    problem: ifAny(
      (gateways) => `PostgreSQL gets no heartbeat from ${gateways} gateways`,
      "gateways",
    ),
    raised: "gateways.silent",
    resolved: "gateways.returned",
    resolvedSummary:
      "PostgreSQL gets heartbeats from all gateways again, or the silent ones have left",
  },
  {
    metric: "sluice_gateways_with_other_settings",
    problem: ifAny(
      (gateways) => `${gateways} gateways have other settings than this one`,
      "gateways",
    ),
    raised: "settings.differ",
    resolved: "settings.equal",
    resolvedSummary: "all gateways have the same settings again",
    // The settings differ during each rollout of a changed file.
    afterMs: 900_000,
  },
  {
    metric: "sluice_clock_offset_seconds",
    problem(offset) {
      if (Math.abs(offset) <= maxClockOffsetSeconds) return undefined;
      const summary = `the clock of this host and that of PostgreSQL differ by ${Math.abs(offset).toFixed(1)} s`;
      return { summary, data: { offset_seconds: offset } };
    },
    raised: "clock.wrong",
    resolved: "clock.recovered",
    resolvedSummary: "the clock of this host agrees with that of PostgreSQL again",
  },
  {
    metric: "sluice_clock_behind_seconds",
    problem(seconds) {
      if (seconds <= maxClockBehindSeconds) return undefined;
      const summary = `the clock is ${Math.round(seconds)} s behind the last charge, and no limit becomes free`;
      return { summary, data: { behind_seconds: seconds } };
    },
    raised: "clock.wrong",
    resolved: "clock.recovered",
    resolvedSummary: "the clock has caught up with the last charge",
  },
  {
    metric: "sluice_damaged_databases",
    problem: ifAny((databases) => `${databases} databases of the data folder are damaged`),
    raised: "database.damaged",
    resolved: "database.repaired",
    resolvedSummary: "no database of the data folder is damaged",
  },
  {
    metric: "sluice_journal_missing",
    problem: ifAny(() => "there was no journal at the start, so all limits are full again"),
    raised: "journal.missing",
    resolved: "journal.found",
    resolvedSummary: "the journal exists",
  },
  {
    metric: "sluice_inference_rate_known",
    problem: ifZero("the rate of a network cannot be read, and the network is not used"),
    raised: "rate.unknown",
    resolved: "rate.known",
    resolvedSummary: "the rates of all networks are known",
  },
  {
    metric: "sluice_tls_expires_timestamp_seconds",
    problem(expires, now) {
      const secondsLeft = expires - now / 1000;
      if (secondsLeft > certificateDays * 86_400) return undefined;
      const expiresAt = new Date(expires * 1000).toISOString();
      const reason = secondsLeft > 0 ? "expires soon" : "expired";
      const verb = secondsLeft > 0 ? "expires" : "expired";
      const summary = `the certificate of the listener ${verb} at ${expiresAt}`;
      return { summary, data: { reason, expires_at: expiresAt } };
    },
    raised: "certificate.invalid",
    resolved: "certificate.recovered",
    resolvedSummary: "the listener has a valid certificate",
  },
  {
    metric: "sluice_tls_reload_failed",
    problem(value) {
      if (value !== 1) return undefined;
      const summary = "the new certificate cannot be used, and the listener keeps the previous one";
      return { summary, data: { reason: "refused" } };
    },
    raised: "certificate.invalid",
    resolved: "certificate.recovered",
    resolvedSummary: "the files of the certificate are in use",
  },
];

function ifZero(summary: string): WatchedState["problem"] {
  return (value) => (value === 0 ? { summary, data: {} } : undefined);
}

function ifAny(summary: (count: number) => string, counted = "count"): WatchedState["problem"] {
  return (count) =>
    count > 0 ? { summary: summary(count), data: { [counted]: count } } : undefined;
}

export class MetricWatch {
  /** Times at which current problems began, in milliseconds since 1970. */
  readonly #since = new Map<WatchedState, number>();
  readonly #counted = new Map<string, number>();

  /** A metric of a part that does not run has no values. */
  states(gateway: WithMetrics, now: number): Problem[] {
    return watched.flatMap((each): Problem[] => {
      // A metric may have a value for each network, for example.
      const [found] = gateway
        .metric(each.metric)
        .filter(({ labels }) => each.state === undefined || labels["state"] === each.state)
        .flatMap(({ value }) => each.problem(value, now) ?? []);
      if (found === undefined) {
        this.#since.delete(each);
        return [];
      }
      const since = this.#since.get(each) ?? now;
      this.#since.set(each, since);
      if (now - since < (each.afterMs ?? 0)) return [];
      const resolved = { type: each.resolved, summary: each.resolvedSummary, data: {} };
      return [{ id: `state ${each.metric}`, raised: { type: each.raised, ...found }, resolved }];
    });
  }

  events(gateway: WithMetrics): Problem[] {
    const found: Problem[] = [];
    if (this.#hasRisen("fenced", gateway.metric("sluice_fenced_total")[0]?.value)) {
      const summary =
        "PostgreSQL got no heartbeat from this gateway, and gave its credit to others";
      const raised: Alert = { type: "gateway.fenced", summary, data: {} };
      found.push({ id: "event fenced", raised, resolved: undefined });
    }
    for (const { labels, value } of gateway.metric("sluice_inference_unpriced_total")) {
      const { network = "", missing = "" } = labels;
      const id = `unpriced ${network} ${missing}`;
      if (!this.#hasRisen(id, value)) continue;
      const summary = `answers of the network ${network} are free, because the ${missing} is missing or 0`;
      const raised: Alert = { type: "chat.unpriced", summary, data: { network, missing } };
      found.push({ id: `event ${id}`, raised, resolved: undefined });
    }
    return found;
  }

  #hasRisen(id: string, value = 0): boolean {
    const before = this.#counted.get(id) ?? 0;
    this.#counted.set(id, value);
    return value > before;
  }
}
