/** Decodes answers of workers that encode them although they were asked not to. */
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
} from "node:zlib";
import type { Transform } from "node:stream";

/** Exactly one of `onEnd` and `onError` is called, once. `onFull` and `onDrain` are backpressure. */
export interface DecoderSink {
  onData(chunk: Buffer): void;
  onEnd(): void;
  onError(): void;
  onFull(): void;
  onDrain(): void;
}

export interface BodyDecoder {
  write(chunk: Buffer): void;
  end(): void;
  /** Data that is written until `resume` fills the buffer. */
  pause(): void;
  resume(): void;
  /** The sink is not called any more. */
  close(): void;
}

const codings: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  "x-gzip": createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
};

/** Returns undefined for an unsupported coding, or several codings in a row. */
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
    if (!over) sink.onData(chunk);
  });
  stream.once("end", () => once(() => sink.onEnd()));
  stream.once("error", () => once(() => sink.onError()));
  stream.on("drain", () => sink.onDrain());
  return {
    write(chunk) {
      if (!stream.write(chunk)) sink.onFull();
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
