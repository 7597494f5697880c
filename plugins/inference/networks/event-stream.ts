/**
 * Parses a stream of server-sent events incrementally (WHATWG HTML, "Interpreting an event stream"). Only `data` is
 * used; comments and other fields are skipped. Lines end in LF or CRLF.
 */

/** Called with the data of each event. The bytes are borrowed. */
export interface EventReader {
  event(bytes: Buffer, start: number, end: number): void;
}

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const space = 0x20;
const newline = Buffer.of(lineFeed);

export class EventStream {
  readonly #reader: EventReader;
  readonly #maxBytes: number;
  /** The start of an incomplete line. */
  #line: Buffer[] = [];
  /** The data of an incomplete event: the range of its first line, and copies of further lines. */
  #data: Buffer | undefined;
  #start = 0;
  #end = 0;
  #further: Buffer[] = [];
  /** Number of buffered bytes of an incomplete line and of an incomplete event. */
  #lineBytes = 0;
  #dataBytes = 0;

  /** `maxBytes`: maximum size of one event. */
  constructor(reader: EventReader, maxBytes: number) {
    this.#reader = reader;
    this.#maxBytes = maxBytes;
  }

  /**
   * Reads `bytes[start, end)`, which is borrowed, and reports the events that are complete. Returns false if an event
   * is too long; the stream must not be used afterwards.
   */
  write(bytes: Buffer, start: number, end: number): boolean {
    let begin = start;
    for (;;) {
      const feed = bytes.indexOf(lineFeed, begin);
      if (feed === -1 || feed >= end) break;
      this.#lineEnds(bytes, begin, feed);
      begin = feed + 1;
    }
    this.#keep(bytes, begin, end);
    return this.#lineBytes + this.#dataBytes <= this.#maxBytes;
  }

  #lineEnds(chunk: Buffer, begin: number, feed: number): void {
    if (this.#line.length === 0) return this.#read(chunk, begin, feed);
    const line = Buffer.concat([...this.#line, chunk.subarray(begin, feed)]);
    this.#line = [];
    this.#lineBytes = 0;
    this.#read(line, 0, line.length);
  }

  #read(bytes: Buffer, begin: number, feed: number): void {
    const end = feed > begin && bytes[feed - 1] === carriageReturn ? feed - 1 : feed;
    if (end === begin) return this.#dispatch();
    if (!isData(bytes, begin, end)) return;
    const value = bytes[begin + 5] === space ? begin + 6 : begin + 5;
    const start = Math.min(value, end);
    if (this.#data === undefined) {
      this.#data = bytes;
      this.#start = start;
      this.#end = end;
    } else {
      this.#further.push(Buffer.from(bytes.subarray(start, end)));
    }
    // Includes the line feed that joins it to the next line.
    this.#dataBytes += end - start + 1;
  }

  #dispatch(): void {
    const data = this.#data;
    this.#dataBytes = 0;
    if (data === undefined) return;
    this.#data = undefined;
    if (this.#further.length === 0) return this.#reader.event(data, this.#start, this.#end);
    const joined = [data.subarray(this.#start, this.#end)];
    for (const line of this.#further) joined.push(newline, line);
    this.#further = [];
    const whole = Buffer.concat(joined);
    this.#reader.event(whole, 0, whole.length);
  }

  /** Copies the bytes that are needed after this call. */
  #keep(bytes: Buffer, begin: number, end: number): void {
    if (this.#data === bytes) {
      this.#data = Buffer.from(bytes.subarray(this.#start, this.#end));
      this.#start = 0;
      this.#end = this.#data.length;
    }
    if (begin === end) return;
    this.#line.push(Buffer.from(bytes.subarray(begin, end)));
    this.#lineBytes += end - begin;
  }
}

/** Returns true if the line is `data` or starts with `data:`. */
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
