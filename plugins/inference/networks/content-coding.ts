/** Decodes a content coding piece by piece, for workers that encode their answers although they were asked not to. */
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
} from "node:zlib";
import type { Transform } from "node:stream";

/**
 * Receives the decoded data. `full` and `drained` are backpressure. Exactly one of `ended` and `broken` is called,
 * once.
 */
export interface DecoderSink {
  data(chunk: Buffer): void;
  ended(): void;
  broken(): void;
  full(): void;
  drained(): void;
}

export interface BodyDecoder {
  write(chunk: Buffer): void;
  end(): void;
  /** Stops the output until `resume`. Data written meanwhile fills the buffer. */
  pause(): void;
  resume(): void;
  /** Stops the decoder. The sink is not called any more. */
  close(): void;
}

const codings: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  "x-gzip": createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
};

/** Undefined for an unsupported coding, or several codings in a row. */
export function createDecoder(coding: string, sink: DecoderSink): BodyDecoder | undefined {
  const stream = Object.hasOwn(codings, coding) ? codings[coding]?.() : undefined;
  if (stream === undefined) return undefined;
  let over = false;
  const once = (notify: () => void): void => {
    if (over) return;
    over = true;
    notify();
  };
  stream.on("data", (chunk: Buffer) => {
    if (!over) sink.data(chunk);
  });
  stream.once("end", () => once(() => sink.ended()));
  stream.once("error", () => once(() => sink.broken()));
  stream.on("drain", () => sink.drained());
  return {
    write(chunk) {
      if (!stream.write(chunk)) sink.full();
    },
    end: () => void stream.end(),
    pause: () => void stream.pause(),
    resume: () => void stream.resume(),
    close() {
      over = true;
      stream.destroy();
    },
  };
}
