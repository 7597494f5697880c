/**
 * Most heads of a connection differ only in the length of the body, so one that equals the last byte by byte, except
 * for that length, is not parsed again.
 */
import type { Socket } from "node:net";
import { readHead, type RequestHead } from "./request-head.ts";

/** A longer head is handed over to node:http. */
const maxHeadBytes = 8 * 1024;
const emptyLine = Buffer.from("\r\n\r\n");
const nothing = Buffer.alloc(0);

const lengthField = /\r\ncontent-length: ?(\d{1,9})\r\n/i;

export class HeadReader {
  /** Index at which the body after the last head starts. */
  bodyStart = 0;
  readonly #socket: Socket;
  #last: RequestHead | undefined;
  /** The last head before and after the value of Content-Length. Without that field, the whole head and nothing. */
  #before = nothing;
  #after = nothing;
  /** Index of the length in `rawHeaders`, or -1. */
  #lengthAt = -1;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Returns `incomplete` if a part is missing, undefined if the head is not ordinary. */
  read(bytes: Buffer): RequestHead | "incomplete" | undefined {
    const like = this.#sameAsLast(bytes);
    if (like !== undefined) return like;
    const end = bytes.indexOf(emptyLine);
    if (end === -1) return "incomplete";
    if (end > maxHeadBytes) return undefined;
    this.bodyStart = end + emptyLine.length;
    return this.#readWhole(bytes.toString("latin1", 0, end + 2));
  }

  #sameAsLast(bytes: Buffer): RequestHead | undefined {
    const last = this.#last;
    const before = this.#before;
    if (last === undefined || !hasAt(bytes, before, 0)) return undefined;
    let at = before.length;
    let length = 0;
    if (this.#lengthAt !== -1) {
      for (; at < before.length + 9; at++) {
        const digit = (bytes[at] ?? 0) - 0x30;
        if (!(digit >= 0 && digit <= 9)) break;
        length = length * 10 + digit;
      }
    }
    if (!hasAt(bytes, this.#after, at)) return undefined;
    this.bodyStart = at + this.#after.length;
    const digits = at - before.length;
    if (length === last.bodyBytes && digits === last.headers["content-length"]?.length) return last;
    return this.#lengthAt === -1
      ? last
      : this.#withLength(last, bytes.toString("latin1", before.length, at));
  }

  #withLength(last: RequestHead, length: string): RequestHead | undefined {
    if (length === "") return undefined;
    const headers = { ...last.headers, "content-length": length };
    const rawHeaders = last.rawHeaders.with(this.#lengthAt, length);
    this.#last = { ...last, headers, rawHeaders, bodyBytes: Number(length) };
    return this.#last;
  }

  #readWhole(text: string): RequestHead | undefined {
    const head = readHead(text, this.#socket);
    this.#last = head;
    if (head === undefined) return undefined;
    const whole = `${text}\r\n`;
    const field = lengthField.exec(text);
    const end = field === null ? whole.length : field.index + field[0].length - 2;
    this.#before = Buffer.from(whole.slice(0, end - (field?.[1]?.length ?? 0)), "latin1");
    this.#after = Buffer.from(whole.slice(end), "latin1");
    this.#lengthAt = field === null ? -1 : valueAt(head.rawHeaders, "content-length");
    return head;
  }
}

function hasAt(bytes: Buffer, part: Buffer, at: number): boolean {
  const end = at + part.length;
  return end <= bytes.length && bytes.compare(part, 0, part.length, at, end) === 0;
}

function valueAt(rawHeaders: readonly string[], wanted: string): number {
  return rawHeaders.findIndex((name, at) => at % 2 === 0 && name.toLowerCase() === wanted) + 1;
}
