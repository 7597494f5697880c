/** The vectors of ../shared, which is not part of the repository. */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const file = fileURLToPath(
  new URL("../../../../../shared/spec/vectors/cstream.json", import.meta.url),
);

/** Without ../shared, these tests are skipped; with CI=true they fail. */
export const skipWithoutVectors: string | false =
  process.env["CI"] !== "true" && !existsSync(file) ? "needs ../shared" : false;

export interface Vectors {
  readonly text: (name: string) => string;
  /** Returns the bytes of the text with that name, which is written in hex. */
  readonly bytes: (name: string) => Uint8Array<ArrayBuffer>;
  /** UTF-8 of the text. */
  readonly utf8: (name: string) => Uint8Array<ArrayBuffer>;
}

export function readVectors(): Vectors {
  const vectors = JSON.parse(readFileSync(file, "utf8")) as Record<string, string>;
  const text = (name: string): string => {
    const found = vectors[name];
    if (found === undefined) throw new Error(`no vector ${name}`);
    return found;
  };
  return {
    text,
    bytes: (name) => Uint8Array.from(Buffer.from(text(name), "hex")),
    utf8: (name) => Uint8Array.from(Buffer.from(text(name), "utf8")),
  };
}
