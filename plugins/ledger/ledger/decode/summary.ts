/** Summarizes an extrinsic, so that a person can check what it would do. */
import type { CallSummary } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import { readExtrinsic } from "./extrinsics.ts";
import type { Runtime } from "./runtime.ts";
import { ValueReader } from "./value.ts";

/** The default prefix of sp_core, "generic Substrate". */
const defaultPrefix = 42;

/** Returns the summary of an extrinsic. Undefined if the bytes are not an extrinsic of this runtime. */
export function summarise(runtime: Runtime, bytes: Buffer): CallSummary | undefined {
  const found = readExtrinsic(runtime, bytes);
  if (found?.entry.pallet === undefined) return undefined;
  const prefix = ss58Prefix(runtime);
  const { entry, argsAt, addressAt } = found;
  return {
    pallet: found.entry.pallet.name,
    method: entry.variant.name,
    signer: addressAt === undefined ? null : signerOf(runtime, bytes, addressAt, prefix),
    args: new ValueReader(runtime, bytes, argsAt, prefix).named(entry.variant.fields, 0),
  };
}

/** Returns the address, or the JSON of another form of signer (an index, raw bytes). */
function signerOf(runtime: Runtime, bytes: Buffer, at: number, prefix: number): string {
  const { address } = runtime.metadata;
  if (address === undefined) return "…";
  const signer = new ValueReader(runtime, bytes, at, prefix).read(address);
  if (typeof signer === "string") return signer;
  // MultiAddress, which almost every chain uses.
  if (isObject(signer) && typeof signer["Id"] === "string") return signer["Id"];
  return JSON.stringify(signer);
}

/** Reads the constant System.SS58Prefix (u8 or u16). */
function ss58Prefix({ metadata }: Runtime): number {
  const system = metadata.pallets.find((pallet) => pallet.name === "System");
  const value = system?.constants.find((constant) => constant.name === "SS58Prefix")?.value;
  if (value?.length === 1) return value.readUInt8(0);
  return value?.length === 2 ? value.readUInt16LE(0) & 0x3fff : defaultPrefix;
}
