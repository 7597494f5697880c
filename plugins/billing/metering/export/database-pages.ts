/**
 * Reads the charges of all gateways from PostgreSQL. The charges of each gateway have ascending numbers in the order of
 * their commits, and those of different gateways have no order, so a position has one number per gateway.
 */
import type { RunSql } from "sluice-gateway/plugin";
import { number, text, type Row } from "sluice-gateway/internal/store";
import { numberOf, parseChargeId, placesPerCommit } from "../charge-number.ts";
import type { UsageJson } from "../charge-text.ts";
import type { ChargePage, ChargePages, PageRange } from "./batch.ts";

/** Charges of a data folder (`local`) may be copied at any time. Other replicas never continue after their end. */
const replicasQuery = `SELECT id, mode <> 'local' AND state <> 'live' AS has_ended, posted AS last,
    CASE WHEN $1::float8 IS NULL THEN posted ELSE least(posted, coalesce((SELECT max(seq)
      FROM sluice.charges WHERE replica = r.id AND time < to_timestamp($1::float8 / 1000)), 0)) END AS last_in_range
  FROM sluice.replicas r ORDER BY id`;

/** Parameters: ids of replicas, their last numbers read and their last numbers; maximum number per replica; times. */
const chargesQuery = `SELECT r.id AS replica, c.seq,
    format('chg_%s_%s_%s', r.journal, c.seq / ${placesPerCommit}, c.seq % ${placesPerCommit}) AS id,
    to_char(c.time AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS time,
    workspace_id, key_id, surface, method, model, request_id,
    used_cu_milli, input_tokens, output_tokens, cached_tokens, reasoning_tokens, estimated, outcome,
    agent, pricing
  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS p (id, after, last)
  JOIN sluice.replicas r USING (id)
  CROSS JOIN LATERAL (
    SELECT * FROM sluice.charges
    WHERE replica = p.id AND seq > p.after AND seq <= p.last
      AND time >= coalesce(to_timestamp($5::float8 / 1000), '-infinity')
      AND time < coalesce(to_timestamp($6::float8 / 1000), 'infinity')
    ORDER BY seq LIMIT $4
  ) AS c
  ORDER BY r.id, c.seq`;

/**
 * Pages of the charges of all gateways. A position is a text such as `cur_17,18:2503`, or the id of a charge of a data
 * folder that was copied. Charges that were deleted from the database or are before the range count as read, and those
 * after it do not, so that the next export can begin with them.
 */
export function databasePages(query: RunSql): ChargePages {
  return async function* pages({ after, ...range }) {
    // A gateway that registers later is not read.
    const replicas = await readReplicas(query, range.to);
    let position = after === undefined ? start : await positionOf(query, after);
    for (let hasMore = true; hasMore;) {
      const page = await readPage(query, replicas, position, range);
      position = page.next;
      ({ hasMore } = page);
      yield page;
    }
  };
}

/** Rejects if the text is not a position. Users of the command get another error, before this one. */
async function positionOf(query: RunSql, after: string): Promise<SharedPosition> {
  const position = parsePosition(after);
  if (position !== undefined) return position;
  const charge = parseChargeId(after);
  if (charge === undefined) {
    throw new Error(
      `invalid position "${after}" in sluice.jobs, expected a text such as cur_17,18:2503`,
    );
  }
  const rows = await query("SELECT id FROM sluice.replicas WHERE journal = $1", [charge.journal]);
  return { ...start, read: new Map(rows.map((row) => [number(row, "id"), numberOf(charge)])) };
}

interface ReplicaInRange extends ChargedReplica {
  /** The number of its last charge before the end of the range. */
  readonly lastInRange: number;
}

async function readReplicas(query: RunSql, to: number | undefined): Promise<ReplicaInRange[]> {
  return (await query(replicasQuery, [to ?? null])).map((row) => ({
    id: number(row, "id"),
    last: number(row, "last"),
    lastInRange: number(row, "last_in_range"),
    hasEnded: row["has_ended"] === true,
  }));
}

/** Reads at least one charge, and about `limit` if there are as many. `next`: the position after the page. */
async function readPage(
  query: RunSql,
  replicas: readonly ReplicaInRange[],
  position: SharedPosition,
  { limit, from, to }: Omit<PageRange, "after">,
): Promise<ChargePage & { readonly next: SharedPosition }> {
  const pending = replicas.filter((replica) => lastRead(position, replica) < replica.lastInRange);
  const perReplica = Math.max(1, Math.ceil(limit / Math.max(1, pending.length)));
  const rows =
    pending.length === 0
      ? []
      : await query(chargesQuery, [
          pending.map(({ id }) => id),
          pending.map((replica) => lastRead(position, replica)),
          pending.map(({ lastInRange }) => lastInRange),
          perReplica,
          from ?? null,
          to ?? null,
        ]);
  const numbers = rows.map((row) => [number(row, "replica"), number(row, "seq")] as const);
  const counts = Map.groupBy(numbers, ([replica]) => replica);
  const isCut = ({ id }: ChargedReplica): boolean => counts.get(id)?.length === perReplica;
  const after = (count: number): SharedPosition => {
    const whole = count === rows.length ? pending.filter((replica) => !isCut(replica)) : [];
    const read = new Map([
      ...numbers.slice(0, count),
      ...whole.map(({ id, lastInRange }) => [id, lastInRange] as const),
    ]);
    return moved(position, replicas, read);
  };
  return {
    charges: rows.map(chargeOf),
    positionAfter: (count) => positionText(after(count)),
    hasMore: pending.some(isCut),
    next: after(rows.length),
  };
}

function chargeOf(row: Row): UsageJson {
  // Only gateways write these columns, in the form of UsageJson.
  const pricing = row["pricing"] as UsageJson["pricing"] | null;
  const agent = row["agent"] as UsageJson["agent"] | null;
  return {
    id: text(row, "id"),
    time: text(row, "time"),
    workspace_id: text(row, "workspace_id"),
    key_id: text(row, "key_id"),
    surface: text(row, "surface"),
    method: text(row, "method"),
    model: row["model"] === null ? null : text(row, "model"),
    request_id: text(row, "request_id"),
    used_cu_milli: number(row, "used_cu_milli"),
    input_tokens: number(row, "input_tokens"),
    output_tokens: number(row, "output_tokens"),
    ...(pricing?.classes !== undefined && {
      cached_tokens: number(row, "cached_tokens"),
      reasoning_tokens: number(row, "reasoning_tokens"),
    }),
    estimated: row["estimated"] === true,
    outcome: text(row, "outcome"),
    ...(agent !== null && { agent }),
    ...(pricing !== null && { pricing }),
  };
}

export interface ChargedReplica {
  readonly id: number;
  /** The highest number that its charges in the database can have. */
  readonly last: number;
  /** True if it can never post another charge. */
  readonly hasEnded: boolean;
}

export interface SharedPosition {
  /** All charges of the replicas up to this id have been read, except those of replicas in `read`. */
  readonly doneTo: number;
  /** Number of the last charge that was read, by the id of the replica. */
  readonly read: ReadonlyMap<number, number>;
}

export const start: SharedPosition = { doneTo: 0, read: new Map() };

export function lastRead({ doneTo, read }: SharedPosition, replica: ChargedReplica): number {
  return read.get(replica.id) ?? (replica.id <= doneTo ? replica.last : 0);
}

/**
 * Returns the position after further charges. `replicas`: all that have registered so far; a later one gets a higher
 * id. `read`: the numbers of the last charges that were read, by replica, where they differ from those in `position`.
 */
export function moved(
  position: SharedPosition,
  replicas: readonly ChargedReplica[],
  read: ReadonlyMap<number, number>,
): SharedPosition {
  const numbers = replicas.map((replica) => {
    const seq = read.get(replica.id) ?? lastRead(position, replica);
    return { id: replica.id, seq, isDone: replica.hasEnded && seq >= replica.last };
  });
  const rest = numbers.filter(({ isDone }) => !isDone);
  return {
    doneTo: Math.max(position.doneTo, ...numbers.map(({ id }) => id)),
    read: new Map(rest.map(({ id, seq }) => [id, seq])),
  };
}

/** Returns the position as text, such as `cur_17,18:2503`: all charges to 17, and those of 18 up to number 2503. */
export function positionText({ doneTo, read }: SharedPosition): string {
  const pairs = [...read].toSorted(([a], [b]) => a - b).map(([id, seq]) => `,${id}:${seq}`);
  return `cur_${doneTo}${pairs.join("")}`;
}

export function parsePosition(given: string): SharedPosition | undefined {
  const [, doneTo, pairs = ""] = /^cur_(\d{1,15})((?:,\d{1,15}:\d{1,16})*)$/.exec(given) ?? [];
  if (doneTo === undefined) return undefined;
  const read = pairs
    .split(",")
    .slice(1)
    .map((pair) => pair.split(":").map(Number) as [number, number]);
  return { doneTo: Number(doneTo), read: new Map(read) };
}
