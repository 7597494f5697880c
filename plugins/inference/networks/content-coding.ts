/** Undoes a content coding piece by piece, for workers that code their answers although they were asked not to. */
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
} from "node:zlib";
import type { Transform } from "node:stream";

/** Told what comes out. `full` and `drained` are backpressure. One of `ended` and `broken` is called, once. */
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
  /** Nothing comes out until `resume`: what is written makes it full. */
  pause(): void;
  resume(): void;
  /** Nothing is told any more. */
  close(): void;
}

const codings: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  "x-gzip": createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
};

/** Undefined for a coding, or several in a row, that nobody here can undo. */
export function createDecoder(coding: string, sink: DecoderSink): BodyDecoder | undefined {
  const stream = Object.hasOwn(codings, coding) ? codings[coding]?.() : undefined;
  if (stream === undefined) return undefined;
  let over = false;
  const once = (tell: () => void): void => {
    if (over) return;
    over = true;
    tell();
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
