/** Reads the params of calls. They come from clients. */
import { parseJson } from "sluice-gateway/internal/toolkit";
import { bytesOf } from "../proofs/scale.ts";

/** Thrown for params that a node refuses, or whose answer cannot be proved. */
export class ParamsError extends Error {}

export class Params {
  readonly #list: readonly unknown[];

  /** `params`: JSON text. Throws a ParamsError. */
  constructor(params: string, max: number) {
    this.#list = listOf(params);
    if (this.#list.length > max) throw new ParamsError();
  }

  bytes(index: number): Uint8Array {
    return asBytes(this.#list[index]);
  }

  optionalBytes(index: number): Uint8Array | undefined {
    return this.#isAbsent(index) ? undefined : this.bytes(index);
  }

  bytesList(index: number): readonly Uint8Array[] {
    const list = this.#list[index];
    if (!Array.isArray(list) || list.length > maxKeys) throw new ParamsError();
    return list.map(asBytes);
  }

  count(index: number): number {
    const count = this.#list[index];
    if (!Number.isSafeInteger(count) || Number(count) < 0 || Number(count) > maxKeys)
      throw new ParamsError();
    return Number(count);
  }

  /** Returns a block hash in lower case. Undefined if the param is missing or null. */
  hash(index: number): string | undefined {
    if (this.#isAbsent(index)) return undefined;
    const hash = this.#list[index];
    if (typeof hash === "string" && bytesOf(hash)?.length === 32) return hash.toLowerCase();
    throw new ParamsError();
  }

  /** Returns a block number, which may be a number or a text with `0x`. Undefined if the param is missing or null. */
  number(index: number): number | undefined {
    if (this.#isAbsent(index)) return undefined;
    const value = this.#list[index];
    const isHex = typeof value === "string" && /^0x[0-9a-f]{1,16}$/i.test(value);
    const number = isHex ? Number(value) : value;
    if (Number.isSafeInteger(number) && Number(number) >= 0) return Number(number);
    throw new ParamsError();
  }

  #isAbsent(index: number): boolean {
    return this.#list[index] === undefined || this.#list[index] === null;
  }
}

/** Maximum number of keys of a call, as nodes have it for pages. */
const maxKeys = 1_000;

function asBytes(value: unknown): Uint8Array {
  const bytes = bytesOf(value);
  if (bytes === undefined) throw new ParamsError();
  return bytes;
}

function listOf(params: string): readonly unknown[] {
  if (params === "") return [];
  try {
    const list = parseJson(params);
    if (Array.isArray(list)) return list;
  } catch {
    // Not JSON.
  }
  throw new ParamsError();
}
