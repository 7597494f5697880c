/**
 * Sends a large body piece by piece, each when the client has taken the one before. The bytes of the body are shared and
 * not copied, and the pace of the client can be seen.
 */
import type { ClientResponse } from "../../message/client-response.ts";
import type { LiveExchange } from "./exchange.ts";

export const maxWholeBytes = 256 * 1024;
/** Less than the high-water mark of a socket, so that a socket which takes a piece at once has room for the next one. */
const pieceBytes = 60 * 1024;

type Part = string | Uint8Array;

/** Sends the body after the head has been written. `parts`: bytes, or ASCII text. `bytes`: their total length. */
export function sendLargeBody(x: LiveExchange, parts: readonly Part[], bytes: number): void {
  x.unwrittenBytes = bytes;
  const { res } = x.arrival;
  const writer = new LargeBody(x, parts);
  res.onDrain = writer;
  res.onHalfClose = () => writer.write(true);
  writer.write();
}

class LargeBody implements NonNullable<ClientResponse["onDrain"]> {
  readonly #x: LiveExchange;
  readonly #parts: readonly Part[];
  #index = 0;
  #offset = 0;

  constructor(x: LiveExchange, parts: readonly Part[]) {
    this.#x = x;
    this.#parts = parts;
  }

  drained(): void {
    this.write();
  }

  /** Writes pieces until the client has to take them. `isLastChance`: writes all that is left. */
  write(isLastChance = false): void {
    const x = this.#x;
    const { res } = x.arrival;
    while (!x.hasEnded) {
      const piece = this.#next();
      x.unwrittenBytes -= piece.length;
      if (x.unwrittenBytes <= 0) {
        res.onDrain = undefined;
        res.onHalfClose = undefined;
        const last = typeof piece === "string" ? Buffer.from(piece, "latin1") : piece;
        res.endChunks(last, undefined, () => {});
        return x.watchReader();
      }
      const hasRoom = res.writeChunk(piece, piece.length);
      if (!hasRoom && !isLastChance) return x.watchReader();
    }
    res.onHalfClose = undefined;
  }

  #next(): Part {
    const part = this.#parts[this.#index] ?? "";
    const start = this.#offset;
    const end = Math.min(part.length, start + pieceBytes);
    if (end === part.length) {
      this.#index++;
      this.#offset = 0;
    } else this.#offset = end;
    if (start === 0 && end === part.length) return part;
    return typeof part === "string" ? part.slice(start, end) : part.subarray(start, end);
  }
}
