import { version as current } from "../base/version.ts";
import { UsageError, type Command } from "./command.ts";

export const version: Command = {
  summary: "print the version",
  help: `usage: sluice version [--json]

Prints the version of Sluice. sluice --version does the same.

--json   print { version, node } as one JSON document`,
  options: {},
  async run(context, _values, [extra]) {
    if (extra !== undefined) throw new UsageError(`unexpected argument "${extra}"`);
    const { node } = process.versions;
    context.print(context.json ? JSON.stringify({ version: current, node }) : current);
    return 0;
  },
};
