import type { ModuleCommand } from "../module.ts";
import { version } from "../base/version.ts";
import { UsageError, type Command } from "./command.ts";

export const commonOptions = {
  config: { type: "string" },
  "env-file": { type: "string" },
  json: { type: "boolean" },
  help: { type: "boolean", short: "h" },
} as const satisfies Command["options"];

const versionCommand: Command = {
  summary: "print the version",
  help: `usage: sluice version [--json]

Prints the version of Sluice. sluice --version does the same.

--json   print { version, node } as one JSON document`,
  options: {},
  async run(context, _values, [extra]) {
    if (extra !== undefined) throw new UsageError(`unexpected argument "${extra}"`);
    const { node } = process.versions;
    context.print(context.json ? JSON.stringify({ version, node }) : version);
    return 0;
  },
};

/** Each command is loaded on use, so that `sluice check` does not load the server's modules. */
const gatewayCommands: Readonly<Record<string, ModuleCommand>> = {
  init: { load: async () => (await import("./init.ts")).init },
  start: { load: async () => (await import("./start.ts")).start, semiSpaceMiB: 8 },
  dev: { load: async () => (await import("./dev.ts")).dev, semiSpaceMiB: 8 },
  check: { load: async () => (await import("./check.ts")).check },
  explain: { load: async () => (await import("./explain.ts")).explain },
  backup: { load: async () => (await import("./backup.ts")).backup },
  restore: { load: async () => (await import("./backup.ts")).restore },
  store: { load: async () => (await import("./store.ts")).storeCommand() },
  plugin: { load: async () => (await import("./plugin/plugin.ts")).plugin },
  completion: {
    async load() {
      const { completionCommand } = await import("./completion.ts");
      return completionCommand(loadedCommands, commonOptions);
    },
  },
  version: { load: () => Promise.resolve(versionCommand) },
};

/**
 * Reads the modules only for a command that is not the gateway's own. `argv`: the arguments after the name, because an
 * option can choose another command of a module, such as `verify --head`.
 */
export async function findCommand(
  name: string,
  argv: readonly string[] = [],
): Promise<ModuleCommand | undefined> {
  if (Object.hasOwn(gatewayCommands, name)) return gatewayCommands[name];
  const commands = await allCommands();
  return [...argv.map((argument) => `${name} ${argument}`), name]
    .filter((each) => Object.hasOwn(commands, each))
    .map((each) => commands[each])[0];
}

export async function allCommands(): Promise<Readonly<Record<string, ModuleCommand>>> {
  const { shippedModules } = await import("../pipeline/load/modules.ts");
  return { ...gatewayCommands, ...(await shippedModules()).commands };
}

/** The commands for completion, which completes the options of `verify --head` after `verify`. */
async function loadedCommands(): Promise<Readonly<Record<string, Command>>> {
  const found: Record<string, Command> = {};
  for (const [fullName, { load }] of Object.entries(await allCommands())) {
    const command = await load();
    const name = fullName.replace(/ .*/, "");
    const options = { ...command.options, ...found[name]?.options };
    found[name] = { ...command, ...found[name], options };
  }
  return found;
}
