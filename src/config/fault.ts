import { isAbsolute, relative, sep } from "node:path";
import { sluiceErrors, type SluiceCode } from "../base/errors.ts";

/** Lines and columns start at 1, as in editors. */
export interface Position {
  readonly file: string;
  readonly line: number;
  readonly col: number;
}

export interface Fault {
  readonly code: string;
  readonly message: string;
  readonly remedy: string;
  readonly at?: Position;
  readonly didYouMean?: string;
}

interface FaultOptions {
  readonly at?: Position | undefined;
  readonly didYouMean?: string | undefined;
  readonly remedy?: string | undefined;
}

export function fault(code: SluiceCode, message: string, options: FaultOptions = {}): Fault {
  const { at, didYouMean, remedy = sluiceErrors[code] } = options;
  return {
    code,
    message,
    remedy,
    ...(at !== undefined && { at }),
    ...(didYouMean !== undefined && { didYouMean }),
  };
}

/** Removes duplicates, too: several routes can use the same list. */
export function orderFaults(faults: readonly Fault[]): Fault[] {
  const seen = new Set<string>();
  return faults
    .filter((one) => {
      const key = JSON.stringify([one.code, one.message, one.at]);
      if (seen.has(key)) return false;
      seen.add(key);
      return true;
    })
    .toSorted(byPosition);
}

function byPosition(a: Fault, b: Fault): number {
  if (a.at === undefined || b.at === undefined) {
    return Number(a.at !== undefined) - Number(b.at !== undefined);
  }
  return (
    compare(a.at.file, b.at.file) ||
    a.at.line - b.at.line ||
    a.at.col - b.at.col ||
    compare(a.code, b.code) ||
    compare(a.message, b.message)
  );
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Prints `file:line:col  CODE  message`, then "did you mean" and the remedy on indented lines. */
export function printFault(one: Fault, cwd: string): string {
  const lines = [
    [place(one.at, cwd), one.code, one.message].filter((part) => part !== "").join("  "),
  ];
  if (one.didYouMean !== undefined)
    lines.push(`    did you mean ${JSON.stringify(one.didYouMean)}?`);
  lines.push(`    ${one.remedy}`);
  return lines.join("\n");
}

function place(at: Position | undefined, cwd: string): string {
  return at === undefined ? "" : `${shownPath(at.file, cwd)}:${at.line}:${at.col}`;
}

/** Paths below `cwd` are shown relative to it. */
export function shownPath(file: string, cwd: string): string {
  if (!isAbsolute(file)) return file;
  const short = relative(cwd, file);
  return short === "" || short === ".." || short.startsWith(`..${sep}`) || isAbsolute(short)
    ? file
    : short;
}
