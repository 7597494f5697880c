import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { packageFile } from "../base/package-files.ts";
import type { CommandContext } from "./command.ts";

export const shippedPipeline = packageFile("pipeline.yaml");

type Environment = CommandContext["env"];

/**
 * Returns the absolute path of `named` (`--config`, else SLUICE_CONFIG), else of ./pipeline.yaml. If that is missing,
 * commands with `mayUseShipped` get the shipped file, with the data in the working folder. All other commands get the
 * path of the missing file and report it: they would keep their data in the package, and an upgrade of the package
 * deletes that folder.
 */
export function findConfigFile(
  named: string | undefined,
  mayUseShipped: boolean,
  env: Environment,
): { readonly configFile: string; readonly env: Environment } {
  if (named !== undefined && named !== "") return { configFile: resolve(named), env };
  const local = resolve("pipeline.yaml");
  if (!mayUseShipped || existsSync(local)) return { configFile: local, env };
  const DATA_DIR = resolve(env["DATA_DIR"] || "data");
  return { configFile: shippedPipeline, env: { ...env, DATA_DIR } };
}
