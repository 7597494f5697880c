/** The type, the failures and the readers of parameters that the methods of the demo node share. */

/** `params`: names of the parameters. `run`: returns the result or throws `RpcFailure`. */
export interface Method {
  readonly params: readonly string[];
  run(...params: readonly unknown[]): unknown;
}

export type Methods = Readonly<Record<string, Method>>;

/** Sends a notification after the answer to the call that is being run. */
export type Notify = (method: string, subscription: string, result: unknown) => void;

/**
 * Thrown by methods and parameter readers, with the code and the text of a real node. json-rpc.ts converts it to the
 * `error` of the answer.
 */
export class RpcFailure extends Error {
  readonly code: number;
  readonly data: string | undefined;

  constructor(code: number, message: string, data?: string) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

export function invalidParams(data: string): RpcFailure {
  return new RpcFailure(-32602, "Invalid params", data);
}

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

export function readList(value: unknown, name: string): readonly unknown[] {
  if (!Array.isArray(value)) throw invalidParams(`${name}: expected a list`);
  return value;
}

/** Reads a count or a block number: a JSON number, or hex (`"0x8"`), which a node accepts as `NumberOrHex`. */
export function readNumber(value: unknown, name: string): number {
  const number =
    typeof value === "string" && /^0x[0-9a-f]{1,8}$/i.test(value) ? Number(value) : value;
  if (typeof number !== "number" || !Number.isInteger(number) || number < 0 || number > 0xffffffff)
    throw invalidParams(`${name}: expected a number of 32 bits`);
  return number;
}
