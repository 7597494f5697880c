import { hashOf } from "../trie/blake2.ts";
import { isObject } from "sluice-gateway/internal/toolkit";
import {
  bytesOf,
  compact,
  hexOf,
  joinBytes,
  readScale,
  ScaleError,
  type ScaleReader,
} from "./scale.ts";

/** Hashes are texts with `0x`, in lower case. */
export interface Header {
  readonly number: number;
  /** The hash that was computed from the other members. */
  readonly hash: string;
  /** The whole header in SCALE. */
  readonly scale: Uint8Array;
  readonly parentHash: string;
  readonly stateRoot: string;
  readonly extrinsicsRoot: string;
  readonly change?: SetChange | undefined;
  /** True if the block forces another authority set, which the set before it does not confirm. */
  readonly isForced: boolean;
}

export interface SetChange {
  readonly authorities: readonly Authority[];
  /** Number of blocks after which the change takes effect. */
  readonly delay: number;
}

export interface Authority {
  /** Ed25519 public key as text with `0x`. */
  readonly id: string;
  readonly weight: bigint;
}

/** Throws a ScaleError. */
export function readHeader(reader: ScaleReader): Header {
  const start = reader.at;
  const parentHash = hexOf(reader.take(32));
  const number = reader.compact();
  const stateRoot = hexOf(reader.take(32));
  const extrinsicsRoot = hexOf(reader.take(32));
  const changes = reader.list(1, readDigestItem);
  const scale = reader.bytes.subarray(start, reader.at);
  const hash = hexOf(hashOf(scale));
  const isForced = changes.some((change) => change?.isForced === true);
  const change = changes.find((each) => each?.isForced === false);
  return { number, hash, scale, parentHash, stateRoot, extrinsicsRoot, change, isForced };
}

/** Reads the answer of `chain_getHeader`. Undefined if it is not a header. */
export function headerOfJson(value: unknown): Header | undefined {
  if (!isObject(value) || !isObject(value["digest"])) return undefined;
  const { parentHash, number, stateRoot, extrinsicsRoot, digest } = value;
  const { logs } = digest;
  if (typeof number !== "string" || !/^0x[0-9a-f]{1,16}$/i.test(number)) return undefined;
  if (Number(number) >= 2 ** 32 || !Array.isArray(logs)) return undefined;
  const parts = [
    bytesOf(parentHash),
    compact(Number(number)),
    bytesOf(stateRoot),
    bytesOf(extrinsicsRoot),
    compact(logs.length),
    ...logs.map(bytesOf),
  ];
  if (!parts.every((part) => part !== undefined)) return undefined;
  return readScale(joinBytes(...parts), (reader) => {
    const header = readHeader(reader);
    return reader.left === 0 ? header : undefined;
  });
}

interface AnnouncedChange extends SetChange {
  readonly isForced: boolean;
}

/** The engine id of GRANDPA, `FRNK`. */
const grandpa = "0x46524e4b";

/** sp-runtime, `DigestItem`. */
function readDigestItem(reader: ScaleReader): AnnouncedChange | undefined {
  const kind = reader.u8();
  if (kind === 8) return undefined;
  if (kind !== 0 && kind !== 4 && kind !== 5 && kind !== 6)
    throw new ScaleError("unknown item of a digest");
  const engine = kind === 0 ? undefined : hexOf(reader.take(4));
  const content = reader.prefixed();
  if (kind !== 4 || engine !== grandpa) return undefined;
  // Ignores the logs of other engines, as Substrate does.
  return readScale(content, readLog);
}

/** sp-consensus-grandpa, `ConsensusLog`. */
function readLog(reader: ScaleReader): AnnouncedChange | undefined {
  const kind = reader.u8();
  const isForced = kind === 2;
  if (kind !== 1 && !isForced) return undefined;
  // The block from which a forced change counts its delay.
  if (isForced) reader.u32();
  const authorities = reader.list(40, readAuthority);
  return { authorities, delay: reader.u32(), isForced };
}

function readAuthority(reader: ScaleReader): Authority {
  return { id: hexOf(reader.take(32)), weight: reader.u64() };
}
