import { readFileSync } from "node:fs";
import { isObject } from "./is-object.ts";
import { packageFile } from "./package-files.ts";

const manifest: unknown = JSON.parse(readFileSync(packageFile("package.json"), "utf8"));

export const version: string =
  isObject(manifest) && typeof manifest["version"] === "string" ? manifest["version"] : "0.0.0";
