/**
 * Parses a stream of server-sent events incrementally (WHATWG HTML, "Interpreting an event stream"). Only `data` is
 * used; comments and other fields are skipped. Lines end in LF or CRLF.
 */

/** The bytes are borrowed. */
export interface EventReader {
  event(bytes: Buffer, start: number, end: number): void;
}

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const space = 0x20;

/** Maximum number of lines of one event. Servers send one or a few. */
const maxLines = 1024;
const firstBytes = 1024;
const noBytes = Buffer.alloc(0);

export class EventStream {
  readonly #reader: EventReader;
  readonly #maxBytes: number;
  /** A copy of the start of an incomplete line. */
  readonly #line = new GrowingBytes();
  /** The data of an incomplete event: the range of its only line, or a copy of all its lines. */
  #data: Buffer | undefined;
  #start = 0;
  #end = 0;
  readonly #joined = new GrowingBytes();
  #lines = 0;

  constructor(reader: EventReader, maxBytes: number) {
    this.#reader = reader;
    this.#maxBytes = maxBytes;
  }

  /**
   * Reports the events that are complete. `bytes` are borrowed. Returns false if an event is too long; the stream must
   * not be used afterwards.
   */
  write(bytes: Buffer, start: number, end: number): boolean {
    let begin = start;
    while (this.#lines <= maxLines) {
      const feed = bytes.indexOf(lineFeed, begin);
      if (feed === -1 || feed >= end) break;
      this.#lineEnds(bytes, begin, feed);
      begin = feed + 1;
    }
    if (this.#lines > maxLines) return false;
    this.#keep(bytes, begin, end);
    return this.#line.length + this.#joined.length <= this.#maxBytes;
  }

  #lineEnds(chunk: Buffer, begin: number, feed: number): void {
    if (this.#line.length === 0) return this.#read(chunk, begin, feed);
    this.#line.append(chunk, begin, feed);
    const { bytes, length } = this.#line;
    // The event may keep the range of this line.
    this.#line.release();
    this.#read(bytes, 0, length);
  }

  #read(bytes: Buffer, begin: number, feed: number): void {
    const end = feed > begin && bytes[feed - 1] === carriageReturn ? feed - 1 : feed;
    if (end === begin) return this.#dispatch();
    if (!isData(bytes, begin, end)) return;
    const value = bytes[begin + 5] === space ? begin + 6 : begin + 5;
    const start = Math.min(value, end);
    this.#lines++;
    if (this.#lines === 1) {
      this.#data = bytes;
      this.#start = start;
      this.#end = end;
      return;
    }
    this.#copyFirst();
    this.#joined.appendByte(lineFeed);
    this.#joined.append(bytes, start, end);
  }

  #dispatch(): void {
    if (this.#lines === 0) return;
    this.#lines = 0;
    const data = this.#data;
    this.#data = undefined;
    if (data !== undefined) return this.#reader.event(data, this.#start, this.#end);
    const { bytes, length } = this.#joined;
    this.#joined.release();
    this.#reader.event(bytes, 0, length);
  }

  #copyFirst(): void {
    if (this.#data === undefined) return;
    this.#joined.append(this.#data, this.#start, this.#end);
    this.#data = undefined;
  }

  #keep(bytes: Buffer, begin: number, end: number): void {
    this.#copyFirst();
    if (begin < end) this.#line.append(bytes, begin, end);
  }
}

/** Pieces are joined at once, because each piece of its own would cost about 100 bytes. */
class GrowingBytes {
  bytes: Buffer = noBytes;
  length = 0;

  append(from: Buffer, start: number, end: number): void {
    this.#reserve(end - start);
    from.copy(this.bytes, this.length, start, end);
    this.length += end - start;
  }

  appendByte(byte: number): void {
    this.#reserve(1);
    this.bytes[this.length++] = byte;
  }

  release(): void {
    this.bytes = noBytes;
    this.length = 0;
  }

  #reserve(more: number): void {
    const needed = this.length + more;
    if (needed <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(needed, 2 * this.bytes.length, firstBytes));
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
  }
}

function isData(bytes: Buffer, start: number, end: number): boolean {
  return (
    end - start >= 4 &&
    bytes[start] === 0x64 &&
    bytes[start + 1] === 0x61 &&
    bytes[start + 2] === 0x74 &&
    bytes[start + 3] === 0x61 &&
    (end - start === 4 || bytes[start + 4] === 0x3a)
  );
}
