import { closeSync, openSync, readFileSync, writeSync } from "node:fs";

/** Overwrites a page (1 is the first one) with bytes that have no structure. */
export function damage(file: string, page: number): void {
  const bytes = readFileSync(file).readUInt16BE(16);
  const noise = Buffer.alloc(bytes, "no page of a database, ");
  const opened = openSync(file, "r+");
  writeSync(opened, noise, 0, bytes, (page - 1) * bytes);
  closeSync(opened);
}
