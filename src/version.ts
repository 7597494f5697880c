/** The version of this package, as its package.json has it. */
import { readFileSync } from "node:fs";

// The file stands beside src/ in the sources and in the published package alike.
const manifest: unknown = JSON.parse(
  readFileSync(new URL("../package.json", import.meta.url), "utf8"),
);

export const version: string =
  typeof manifest === "object" &&
  manifest !== null &&
  "version" in manifest &&
  typeof manifest.version === "string"
    ? manifest.version
    : "0.0.0";
