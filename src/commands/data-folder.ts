import { printFault } from "../config/fault.ts";
import { storeFault } from "../config/store-faults.ts";
import type { Config } from "../config/config.ts";
import { readPipeline } from "../pipeline/load/check-file.ts";
import { knownDatabases } from "../pipeline/load/databases.ts";
import { shippedModules } from "../pipeline/load/modules.ts";
import { StoreError } from "../store/store-error.ts";
import type { CommandContext } from "./command.ts";

export interface DataFolder {
  readonly dataDir: string;
  /** Schema versions that this release knows, by file name. */
  readonly databases: Readonly<Record<string, number>>;
  /** Databases that a gateway can do without. */
  readonly disposable: readonly string[];
  /** Notes for the operator: see `Module.positions`. */
  readonly positions: Readonly<Record<string, string>>;
}

/**
 * Prints the reason and resolves to 1 if the data folder is missing, or if `work` fails. Faults in other sections do not
 * matter: a restore must be possible while a route has a fault.
 */
export async function withDataFolder(
  context: CommandContext,
  work: (folder: DataFolder) => Promise<void>,
): Promise<0 | 1> {
  const { config, faults } = await readPipeline(context.configFile, context.env);
  const relevant = faults.filter(
    ({ at }) => config === undefined || at === undefined || config.sectionOf(at) === "store",
  );
  for (const fault of relevant) context.printToStderr(printFault(fault, process.cwd()));
  if (config === undefined || relevant.length > 0) return 1;
  if (config.store.postgres !== undefined) {
    context.printToStderr(
      "warning: store.postgres is set, so gateways use the database and not the data folder",
    );
  }
  try {
    const { positions } = await shippedModules();
    const { all: databases, disposable } = await knownDatabases();
    await work({ dataDir: config.store.data, databases, disposable, positions });
    return 0;
  } catch (error) {
    return printError(context, config, error);
  }
}

function printError(context: CommandContext, config: Config, error: unknown): 1 {
  if (context.signal.aborted) {
    context.printToStderr("interrupted; nothing has been written");
    return 1;
  }
  if (!(error instanceof StoreError)) throw error;
  context.printToStderr(printFault(storeFault(error, config), process.cwd()));
  return 1;
}
