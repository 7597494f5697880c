/**
 * A position in the charges of several gateways. Charges of one gateway have ascending numbers in the order of their
 * commits, and those of different gateways have no order, so a position has one number per gateway.
 */

/** A row of `sluice.replicas`. */
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

/** The position before the first charge. */
export const start: SharedPosition = { doneTo: 0, read: new Map() };

/** Returns the number of the last charge of a replica that was read. */
export function lastRead({ doneTo, read }: SharedPosition, replica: ChargedReplica): number {
  return read.get(replica.id) ?? (replica.id <= doneTo ? replica.last : 0);
}

/**
 * Returns the position after further charges. `replicas`: all that have registered so far; a later one gets a higher id.
 * `read`: the numbers of the last charges that were read, by replica, where they differ from those in `position`.
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

/** Returns undefined if the text is not a position. */
export function parsePosition(text: string): SharedPosition | undefined {
  const [, doneTo, pairs = ""] = /^cur_(\d{1,15})((?:,\d{1,15}:\d{1,16})*)$/.exec(text) ?? [];
  if (doneTo === undefined) return undefined;
  const read = pairs
    .split(",")
    .slice(1)
    .map((pair) => pair.split(":").map(Number) as [number, number]);
  return { doneTo: Number(doneTo), read: new Map(read) };
}
