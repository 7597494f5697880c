/**
 * Reads the parameters of JSON-RPC calls to the demo node. Each function throws `RpcFailure` -32602 for a wrong value.
 */
import { invalidParams } from "./failure.ts";

export function readText(value: unknown, name: string): string {
  if (typeof value !== "string") throw invalidParams(`${name}: expected a string`);
  return value;
}

/** Reads hex with `0x` in any case, and returns it in lower case. */
export function readHex(value: unknown, name: string): string {
  const text = readText(value, name).toLowerCase();
  if (!/^0x(?:[0-9a-f]{2})*$/.test(text)) throw invalidParams(`${name}: expected hex bytes`);
  return text;
}

export function readHash(value: unknown, name: string): string {
  const text = readHex(value, name);
  if (text.length !== 66) throw invalidParams(`${name}: expected 32 bytes`);
  return text;
}

export function readHexList(value: unknown, name: string): string[] {
  if (!Array.isArray(value)) throw invalidParams(`${name}: expected a list`);
  return value.map((item) => readHex(item, name));
}

/** Reads a count or a block number: a JSON number, or hex (`"0x8"`), which a node accepts as `NumberOrHex`. */
export function readNumber(value: unknown, name: string): number {
  const number =
    typeof value === "string" && /^0x[0-9a-f]{1,8}$/i.test(value) ? Number(value) : value;
  if (typeof number !== "number" || !Number.isInteger(number) || number < 0 || number > 0xffffffff)
    throw invalidParams(`${name}: expected a number of 32 bits`);
  return number;
}
