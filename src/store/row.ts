/** Reads columns of a row with the types that the schema promises. Throws if a type differs. */

export type Row = Readonly<Record<string, unknown>>;

export function text(row: Row, column: string): string {
  const value = row[column];
  if (typeof value !== "string") throw wrongType(column, "text", value);
  return value;
}

export function number(row: Row, column: string): number {
  const value = row[column];
  if (typeof value !== "number") throw wrongType(column, "a number", value);
  return value;
}

export function blob(row: Row, column: string): Buffer {
  const value = row[column];
  if (!(value instanceof Uint8Array)) throw wrongType(column, "bytes", value);
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

export function optionalNumber(row: Row, column: string): number | undefined {
  return row[column] === null ? undefined : number(row, column);
}

export function optionalText(row: Row, column: string): string | undefined {
  return row[column] === null ? undefined : text(row, column);
}

/** Throws if the text is none of `words`. */
export function oneOf<T extends string>(row: Row, column: string, words: readonly T[]): T {
  const value = text(row, column);
  const word = words.find((each) => each === value);
  if (word === undefined) throw wrongType(column, `one of ${words.join(", ")}`, value);
  return word;
}

function wrongType(column: string, wanted: string, value: unknown): TypeError {
  return new TypeError(`column ${column} is not ${wanted} but ${typeof value}`);
}
