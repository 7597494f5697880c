import { readFileSync } from "node:fs";
import { join } from "node:path";

export const root = join(import.meta.dirname, "..");

interface Manifest {
  name: string;
  version: string;
  license: string;
  exports: Record<string, string>;
  bin: Record<string, string>;
  dependencies?: Record<string, string>;
  [field: string]: unknown;
}

// Our own package.json: its fields are the ones declared above.
export const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;

export const modules = [...Object.values(manifest.exports), ...Object.values(manifest.bin)]
  .filter((path) => path.endsWith(".ts"))
  .map((path) => path.replace(/^\.\//, ""));

/** These replace the process of a server, and run the bundle. */
export const startModules = ["src/commands/server-process.ts", "src/commands/run-bundle.ts"];

/** Modules that do their work when they are loaded. */
export const programs = [
  "src/main.ts",
  "src/commands/gateway-thread.ts",
  "src/commands/plugin/suite-process.ts",
];

/** Runs in browsers too, so it must not share code with the gateway, which uses Node's modules. */
export const browserModules = ["plugins/client.ts"];

export const gatewayModules = [
  ...new Set([...modules.filter((path) => !browserModules.includes(path)), ...programs]),
];
