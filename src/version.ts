/** The version of this package, read from its package.json. */
import { readFileSync } from "node:fs";
import { isObject } from "./is-object.ts";

// package.json is next to src/, both in the repository and in the published package.
const manifest: unknown = JSON.parse(
  readFileSync(new URL("../package.json", import.meta.url), "utf8"),
);

export const version: string =
  isObject(manifest) && typeof manifest["version"] === "string" ? manifest["version"] : "0.0.0";
