/** Reads the charges of all gateways from PostgreSQL. The charges of each gateway are in the order of their commits. */
import { placesPerCommit } from "../charge-number.ts";
import type { Postgres } from "sluice-gateway/plugin";
import { number, text, type Row } from "sluice-gateway/store";
import type { UsageRange } from "../read-usage.ts";
import type { UsageJson } from "../usage-json.ts";
import { lastRead, moved, type ChargedReplica, type SharedPosition } from "./shared-position.ts";

export interface SharedCharge {
  readonly replica: number;
  readonly seq: number;
  readonly charge: UsageJson;
}

/** Only charges in this range are read. */
export type ChargeTimes = Omit<UsageRange, "after">;

/** Further charges of a data folder (`local`) may be copied at any time. Other replicas never continue after their end. */
const replicasQuery = `SELECT id, mode <> 'local' AND state <> 'live' AS has_ended, posted AS last
  FROM sluice.replicas ORDER BY id`;

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

export interface SharedCharges {
  readonly charges: readonly SharedCharge[];
  /**
   * Returns the position after the first `count` of these charges. After all of them, charges that were deleted from
   * the database or are out of range count as read.
   */
  positionAfter(count: number): SharedPosition;
  /** True if there may be more charges after all of these. */
  readonly hasMore: boolean;
}

/** Returns all replicas. Rejects with DatabaseFailure. */
export async function readChargedReplicas(database: Postgres): Promise<ChargedReplica[]> {
  const rows = await database.query("export", replicasQuery);
  return rows.map((row) => ({
    id: number(row, "id"),
    last: number(row, "last"),
    hasEnded: row["has_ended"] === true,
  }));
}

/**
 * Reads charges after a position, at least one and about `limit` if there are as many. `replicas`: the result of
 * `readChargedReplicas`; later charges are not read. Rejects with DatabaseFailure.
 */
export async function readSharedCharges(
  database: Postgres,
  replicas: readonly ChargedReplica[],
  position: SharedPosition,
  limit: number,
  { from, to }: ChargeTimes = {},
): Promise<SharedCharges> {
  const pending = replicas.filter((replica) => lastRead(position, replica) < replica.last);
  const perReplica = Math.max(1, Math.ceil(limit / Math.max(1, pending.length)));
  const rows =
    pending.length === 0
      ? []
      : await database.query("export", chargesQuery, [
          pending.map(({ id }) => id),
          pending.map((replica) => lastRead(position, replica)),
          pending.map(({ last }) => last),
          perReplica,
          from ?? null,
          to ?? null,
        ]);
  const charges = rows.map(chargeOf);
  const counts = Map.groupBy(charges, ({ replica }) => replica);
  const isCut = ({ id }: ChargedReplica): boolean => counts.get(id)?.length === perReplica;
  return {
    charges,
    positionAfter(count) {
      const whole = count === charges.length ? pending.filter((replica) => !isCut(replica)) : [];
      const read = new Map([
        ...charges.slice(0, count).map(({ replica, seq }) => [replica, seq] as const),
        ...whole.map(({ id, last }) => [id, last] as const),
      ]);
      return moved(position, replicas, read);
    },
    hasMore: pending.some(isCut),
  };
}

/** Number of charges that are in memory at once. */
const chargesPerRead = 1_000;

/**
 * Yields all charges after a position that are in the database at the start of the call. `reached`: called with the
 * position after the charges that have been yielded. Rejects with DatabaseFailure.
 */
export async function* readAllShared(
  database: Postgres,
  after: SharedPosition,
  times: ChargeTimes,
  reached: (position: SharedPosition) => void,
): AsyncGenerator<UsageJson, undefined> {
  const replicas = await readChargedReplicas(database);
  let position = after;
  for (let hasMore = true; hasMore;) {
    const found = await readSharedCharges(database, replicas, position, chargesPerRead, times);
    for (const { charge } of found.charges) yield charge;
    position = found.positionAfter(found.charges.length);
    reached(position);
    ({ hasMore } = found);
  }
  return undefined;
}

function chargeOf(row: Row): SharedCharge {
  const { agent } = row;
  // Only gateways write this column, in the form of UsageJson. The same holds for `agent`.
  const pricing = row["pricing"] as UsageJson["pricing"] | null;
  return {
    replica: number(row, "replica"),
    seq: number(row, "seq"),
    charge: {
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
    },
  };
}
