/** Collects the chunks of a body. A client can send chunks of one byte, for each of which a Buffer costs 200 bytes. */

/** Smaller chunks are copied into blocks of this size. */
const blockBytes = 4_096;

export class ChunkList {
  readonly #chunks: Buffer[] = [];
  /** The block that is being filled, which follows the chunks. */
  #block: Buffer | undefined;
  #filled = 0;

  /** Adds a chunk, which must not change afterwards. */
  add(chunk: Buffer): void {
    if (this.#filled + chunk.length > blockBytes) this.#closeBlock();
    if (chunk.length >= blockBytes) {
      this.#chunks.push(chunk);
      return;
    }
    this.#block ??= Buffer.allocUnsafeSlow(blockBytes);
    this.#filled += chunk.copy(this.#block, this.#filled);
  }

  /** Returns all chunks as one. `bytes`: their total length. */
  join(bytes: number): Buffer {
    this.#closeBlock();
    return Buffer.concat(this.#chunks, bytes);
  }

  #closeBlock(): void {
    if (this.#block !== undefined) this.#chunks.push(this.#block.subarray(0, this.#filled));
    this.#block = undefined;
    this.#filled = 0;
  }
}
