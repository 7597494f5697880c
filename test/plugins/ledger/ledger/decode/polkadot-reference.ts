/** The reference for decoding: @polkadot/types, whose values are converted to the shapes of our own decoder. */
import { Metadata, TypeRegistry } from "@polkadot/types";
import type { EventRecord } from "@polkadot/types/interfaces";
import { u8aToHex } from "@polkadot/util";

export interface DecodedExtrinsic {
  readonly index: number;
  readonly pallet: string;
  readonly method: string;
  readonly args: string;
  readonly isSigned: boolean;
  readonly raw: string;
}

export interface DecodedEvent {
  readonly index: number;
  readonly phase: string;
  readonly pallet: string;
  readonly event: string;
  readonly data: string;
}

export interface ReferenceDecoder {
  readonly registry: TypeRegistry;
  /** Throws the errors of @polkadot/types. */
  extrinsic(raw: string, index: number): DecodedExtrinsic;
  events(hex: string): DecodedEvent[];
}

/** `metadata`: hex with `0x` and the magic. */
export function referenceDecoder(metadata: string): ReferenceDecoder {
  const registry = new TypeRegistry();
  registry.setMetadata(new Metadata(registry, metadata as `0x${string}`));
  const pallets = new Map(
    registry.metadata.pallets.map((pallet) => [pallet.index.toNumber(), pallet.name.toString()]),
  );
  const nameOf = (index: number | undefined): string => pallets.get(index ?? -1) ?? "?";
  return {
    registry,
    extrinsic(raw, index) {
      const extrinsic = registry.createType("Extrinsic", raw, { isSigned: false });
      return {
        index,
        pallet: nameOf(extrinsic.callIndex[0]),
        method: extrinsic.meta.name.toString(),
        args: u8aToHex(extrinsic.method.toU8a().slice(2)),
        isSigned: extrinsic.isSigned,
        raw,
      };
    },
    events(hex) {
      const records = registry.createType("Vec<EventRecord>", hex) as unknown as EventRecord[];
      return records.map(({ phase, event }, index) => ({
        index,
        phase: phase.isApplyExtrinsic
          ? `ApplyExtrinsic(${phase.asApplyExtrinsic.toString()})`
          : phase.type,
        pallet: nameOf(event.index[0]),
        event: event.method,
        data: u8aToHex(event.toU8a().slice(2)),
      }));
    },
  };
}
