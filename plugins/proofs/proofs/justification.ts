/** The votes with which a GRANDPA authority set finalized a block. */
import { readHeader, type Authority, type Header } from "./header.ts";
import { bytesOf, hexOf, joinBytes, type ScaleReader } from "./scale.ts";

/** sp-consensus-grandpa, `GrandpaJustification`. */
export interface Justification {
  readonly scale: Uint8Array;
  readonly round: bigint;
  readonly target: { readonly hash: string; readonly number: number };
  readonly votes: readonly Vote[];
  /** The headers that connect the blocks of the votes with the target. */
  readonly ancestries: readonly Header[];
}

interface Vote {
  readonly hash: string;
  /** Hash and number of the block in SCALE, as they are signed. */
  readonly signed: Uint8Array;
  readonly signature: Uint8Array;
  /** The voter's public key as text with `0x`. */
  readonly voter: string;
}

/** Throws a ScaleError. */
export function readJustification(reader: ScaleReader): Justification {
  const start = reader.at;
  const round = reader.u64();
  const target = { hash: hexOf(reader.take(32)), number: reader.u32() };
  const votes = reader.list(132, readVote);
  const ancestries = reader.list(98, readHeader);
  const scale = reader.bytes.subarray(start, reader.at);
  return { scale, round, target, votes, ancestries };
}

function readVote(reader: ScaleReader): Vote {
  const signed = reader.take(36);
  const signature = reader.take(64);
  return { hash: hexOf(signed.subarray(0, 32)), signed, signature, voter: hexOf(reader.take(32)) };
}

export interface AuthoritySet {
  readonly id: bigint;
  readonly voters: ReadonlyMap<string, Voter>;
  readonly threshold: bigint;
}

interface Voter {
  readonly weight: bigint;
  /** Returns the public key. Rejects if it is not a point of the curve. */
  readonly key: () => Promise<CryptoKey>;
}

export function authoritySet(
  id: bigint,
  authorities: readonly Authority[],
): AuthoritySet | undefined {
  const voters = new Map<string, Voter>();
  let total = 0n;
  for (const { id: voter, weight } of authorities) {
    if (weight === 0n) continue;
    voters.set(voter, {
      weight: weight + (voters.get(voter)?.weight ?? 0n),
      key: publicKey(voter),
    });
    total += weight;
  }
  return total === 0n ? undefined : { id, voters, threshold: total - (total - 1n) / 3n };
}

function publicKey(voter: string): Voter["key"] {
  let key: Promise<CryptoKey> | undefined;
  return () => {
    const bytes = Uint8Array.from(bytesOf(voter) ?? []);
    return (key ??= crypto.subtle.importKey("raw", bytes, "Ed25519", false, ["verify"]));
  };
}

/** Number of signatures that are checked at once, so that other work of libuv's threads can run in between. */
const signaturesAtOnce = 16;

/**
 * Returns the reason if the set has not finalized the target. As in Substrate, one wrong vote spoils the justification,
 * votes of others than the authorities do not count, and an authority that voted for two blocks counts once.
 */
export async function refusalOf(
  { round, target, votes, ancestries }: Justification,
  set: AuthoritySet,
): Promise<string | undefined> {
  const parents = new Map(ancestries.map(({ hash, parentHash }) => [hash, parentHash]));
  const descendants = new Set([target.hash]);
  const votesOf = new Map<string, number>();
  const counted: { readonly vote: Vote; readonly key: Voter["key"] }[] = [];
  let weight = 0n;
  for (const vote of votes) {
    const voter = set.voters.get(vote.voter);
    if (voter === undefined) continue;
    if (!descends(vote.hash, parents, descendants))
      return "a vote is for a block that does not descend from the justified one";
    const before = votesOf.get(vote.voter) ?? 0;
    if (before === 2) return "an authority voted more than twice";
    if (before === 0) weight += voter.weight;
    votesOf.set(vote.voter, before + 1);
    counted.push({ vote, key: voter.key });
  }
  if (weight < set.threshold) return "too few authorities of the set have voted";
  const suffix = new Uint8Array(16);
  const numbers = new DataView(suffix.buffer);
  numbers.setBigUint64(0, round, true);
  numbers.setBigUint64(8, set.id, true);
  for (let start = 0; start < counted.length; start += signaturesAtOnce) {
    const checks = counted
      .slice(start, start + signaturesAtOnce)
      // 1: the variant `Precommit` of the signed message.
      .map(({ vote: { signed, signature }, key }) =>
        isSigned(joinBytes(Uint8Array.of(1), signed, suffix), key, signature),
      );
    if ((await Promise.all(checks)).includes(false)) return "a signature is wrong";
  }
  return undefined;
}

/** `descendants`: hashes that are known to descend. Those that are found are added. */
function descends(
  hash: string,
  parents: ReadonlyMap<string, string>,
  descendants: Set<string>,
): boolean {
  const path: string[] = [];
  for (let at: string | undefined = hash; ; at = parents.get(at)) {
    if (at === undefined) return false;
    if (descendants.has(at)) break;
    path.push(at);
  }
  for (const each of path) descendants.add(each);
  return true;
}

/** WebCrypto refuses a few signatures that ZIP 215, which Substrate follows, accepts. No authority makes them. */
async function isSigned(
  message: Uint8Array<ArrayBuffer>,
  key: Voter["key"],
  signature: Uint8Array,
): Promise<boolean> {
  try {
    return await crypto.subtle.verify("Ed25519", await key(), joinBytes(signature), message);
  } catch {
    return false;
  }
}
