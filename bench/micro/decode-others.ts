/** The decoders with which ours is compared. All give the JSON text of a block's extrinsics or events. */
import { getDynamicBuilder, getLookupFn } from "@polkadot-api/metadata-builders";
import { Tuple, decAnyMetadata, unifyMetadata, type Codec } from "@polkadot-api/substrate-bindings";
import { readMetadata } from "../../plugins/ledger/ledger/decode/metadata.ts";
import { referenceDecoder } from "../../test/plugins/ledger/ledger/decode/polkadot-reference.ts";

export interface BlockDecoder {
  extrinsics(list: Buffer): string;
  events(value: Buffer): string;
}

/** The decoder of @polkadot/types, which creates a value for each argument. */
export function polkadotTypes(metadata: string): BlockDecoder {
  const reference = referenceDecoder(metadata);
  return {
    extrinsics: (list) =>
      JSON.stringify(listOf(list).map((raw, index) => reference.extrinsic(raw, index))),
    events: (value) => JSON.stringify(reference.events(textOf(value))),
  };
}

interface Tagged {
  readonly type: string;
  readonly value: unknown;
}

/**
 * The decoder of PAPI's codecs. They report no offsets, so the arguments must be encoded again to get their bytes.
 * PAPI's own clients do not need these bytes, but this answer does.
 */
export function papi(metadata: string): BlockDecoder {
  const unified = unifyMetadata(decAnyMetadata(metadata));
  const lookup = getLookupFn(unified);
  const builder = getDynamicBuilder(lookup);
  const extrinsic = extrinsicTypes(metadata);
  const calls: Codec<Tagged> = builder.buildDefinition(lookup.call ?? 0);
  const extensions = extrinsic.extensions.map((type) => builder.buildDefinition(type));
  const signed = Tuple(
    builder.buildDefinition(extrinsic.address),
    builder.buildDefinition(extrinsic.signature),
    ...extensions,
    calls,
  );
  const records = builder.buildStorage("System", "Events").value;
  const event = builder.buildDefinition(eventType(lookup));
  return {
    extrinsics: (list) =>
      JSON.stringify(
        listOf(list).map((raw, index) => {
          const bytes = Buffer.from(raw.slice(2), "hex");
          const at = [1, 2, 4, 5][(bytes[0] ?? 0) & 3] ?? 1;
          const isSigned = (bytes[at] ?? 0) >= 0x80;
          const body = new Uint8Array(bytes.subarray(at + 1));
          // In a signed extrinsic the call is the last part.
          const found = (isSigned ? signed.dec(body).at(-1) : calls.dec(body)) as Tagged;
          return { index, ...named(found, calls), isSigned, raw };
        }),
      ),
    events: (value) => {
      const list: { phase: Tagged; event: Tagged }[] = records.dec(textOf(value));
      return JSON.stringify(
        list.map((record, index) => {
          const { pallet, method, args } = named(record.event, event);
          const { type, value: number } = record.phase;
          const phase = type === "ApplyExtrinsic" ? `${type}(${String(number)})` : type;
          return { index, phase, pallet, event: method, data: args };
        }),
      );
    },
  };
}

function named(
  found: Tagged,
  codec: Codec<Tagged>,
): { pallet: string; method: string; args: string } {
  // An enum of pallets holds an enum of calls or events.
  const inner = found.value as Tagged;
  const encoded = Buffer.from(codec.enc(found));
  return { pallet: found.type, method: inner.type, args: `0x${encoded.toString("hex", 2)}` };
}

/** In metadata 14 they are parameters of a type, which PAPI's reader does not keep. */
function extrinsicTypes(hex: string): {
  address: number;
  signature: number;
  extensions: readonly number[];
} {
  const metadata = readMetadata(Buffer.from(hex.slice(2), "hex"));
  const { address = 0, signature = 0, extensions = [] } = metadata ?? {};
  return { address, signature, extensions };
}

function eventType(lookup: ReturnType<typeof getLookupFn>): number {
  const { pallets } = lookup.metadata;
  const system = pallets.find(({ name }) => name === "System");
  const stored = system?.storage?.items.find(({ name }) => name === "Events")?.type;
  const records = stored?.tag === "plain" ? lookup(stored.value) : undefined;
  const record = records?.type === "sequence" ? records.value : undefined;
  const event = record?.type === "struct" ? record.value.event : undefined;
  return event?.id ?? 0;
}

// Answers of the node: an array of hex strings, and one hex string.
const listOf = (list: Buffer): string[] => JSON.parse(list.toString()) as string[];
const textOf = (value: Buffer): string => JSON.parse(value.toString()) as string;
