/**
 * Reads the heads of one connection. What they have in common is all but the length of the body, most of the time: a
 * head that is like the last one is not read again.
 */
import type { Socket } from "node:net";
import { lengthPattern, readHead, type RequestHead } from "./request-head.ts";

const lengthField = /\r\ncontent-length: ?(\d{1,9})\r\n/i;

export class HeadReader {
  readonly #socket: Socket;
  #last: RequestHead | undefined;
  /** The last head up to its length, and from there on; without a length all of it, and nothing. */
  #before = "";
  #after = "";
  /** Where `rawHeaders` has the length. */
  #lengthAt = -1;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Undefined for a head that is not an ordinary one. `text`: up to the empty line, which is not part of it. */
  read(text: string): RequestHead | undefined {
    return this.#likeTheLast(text) ?? this.#readWhole(text);
  }

  #likeTheLast(text: string): RequestHead | undefined {
    const last = this.#last;
    const before = this.#before;
    const after = this.#after;
    if (last === undefined || !text.startsWith(before) || !text.endsWith(after)) return undefined;
    const length = text.slice(before.length, text.length - after.length);
    if (length === last.headers["content-length"] || text === before) return last;
    if (!lengthPattern.test(length)) return undefined;
    const headers = { ...last.headers, "content-length": length };
    const rawHeaders = last.rawHeaders.with(this.#lengthAt, length);
    this.#last = { ...last, headers, rawHeaders, bodyBytes: Number(length) };
    return this.#last;
  }

  #readWhole(text: string): RequestHead | undefined {
    const head = readHead(text, this.#socket);
    this.#last = head;
    if (head === undefined) return undefined;
    const field = lengthField.exec(text);
    const end = field === null ? text.length : field.index + field[0].length - 2;
    this.#before = text.slice(0, end - (field?.[1]?.length ?? 0));
    this.#after = text.slice(end);
    const raw = head.rawHeaders;
    this.#lengthAt =
      raw.findIndex((name, at) => at % 2 === 0 && name.toLowerCase() === "content-length") + 1;
    return head;
  }
}
