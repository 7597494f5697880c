/** `sluice check`: reports every fault of pipeline.yaml without opening a port. */
import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { routeTitle } from "../config/check.ts";
import { defaultTimeoutMs, type Config, type StepUse } from "../config/config.ts";
import { printFault, shownPath, type Fault } from "../config/fault.ts";
import { publishedSchema } from "../config/publish.ts";
import { loadShipped } from "../pipeline/load/load.ts";
import { checkFile, type ValidatedConfig } from "../pipeline/load/check-file.ts";
import { dryRun } from "../pipeline/load/dry-run.ts";
import { UsageError, type Command, type CommandContext } from "./command.ts";

export const check: Command = {
  summary: "check pipeline.yaml without starting anything",
  help: `usage: sluice check [--config FILE] [--write-schema FILE] [--json]

Reads pipeline.yaml, loads its plugins, checks their order and starts each plugin without listening. Prints every fault
with its position, its code and a remedy. Without faults, it prints the order of the steps of each route.

  --write-schema FILE   write the JSON Schema of pipeline.yaml to FILE, for completion in editors. It has the options of
                        all plugins that ship with Sluice and of the plugins that pipeline.yaml names
  --json                print { ok, file, faults, routes } as one JSON document

Exit code 0 without faults, else 1.`,
  mayUseShippedPipeline: true,
  options: { "write-schema": { type: "string" } },
  async run(context, values, positionals) {
    if (positionals.length > 0)
      throw new UsageError(`unexpected argument "${positionals.join(" ")}"`);
    const { validated, faults } = await dryRun(
      await checkFile(context.configFile, context.env),
      context.env,
    );
    const target = values["write-schema"];
    if (typeof target === "string" && validated !== undefined) {
      const { plugins } = await loadShipped();
      const all = new Map([...plugins, ...validated.plugins]);
      await writeFile(resolve(target), schemaText(publishedSchema(all.values())));
    }
    if (context.json) printJson(context, validated, faults);
    else printProse(context, validated, faults);
    return faults.length === 0 ? 0 : 1;
  },
};

/** The text of pipeline.schema.json. */
export function schemaText(schema: object): string {
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}

function printJson(
  context: CommandContext,
  validated: ValidatedConfig | undefined,
  faults: readonly Fault[],
): void {
  const cwd = process.cwd();
  const shown = faults.map(({ at, ...fault }) => ({
    ...fault,
    ...(at !== undefined && { file: shownPath(at.file, cwd), line: at.line, col: at.col }),
  }));
  context.print(
    JSON.stringify({
      ok: faults.length === 0,
      file: shownPath(context.configFile, cwd),
      faults: shown,
      ...(validated !== undefined && { routes: orderOf(validated.config) }),
    }),
  );
}

function printProse(
  context: CommandContext,
  validated: ValidatedConfig | undefined,
  faults: readonly Fault[],
): void {
  const cwd = process.cwd();
  for (const fault of faults) context.print(printFault(fault, cwd));
  const file = shownPath(context.configFile, cwd);
  if (faults.length > 0) {
    context.complain(`${file}: ${faults.length} ${faults.length === 1 ? "fault" : "faults"}`);
  } else if (validated !== undefined) {
    context.print(`${file} has no faults.\n`);
    for (const line of printOrder(validated.config)) context.print(line);
  }
}

/** Prints the compiled order as text: per route, the steps in their order and the surface that answers. */
export function printOrder(config: Config): string[] {
  return orderOf(config).flatMap(({ route, run, to }) => [route, `  ${[...run, to].join(" > ")}`]);
}

function orderOf(config: Config): { route: string; run: string[]; to: string }[] {
  return [
    ...config.routes.map((route) => ({
      route: routeTitle(route),
      run: route.run.map(stepTitle),
      to: route.to.name,
    })),
    { route: "(unmatched)", run: config.unmatched.map(stepTitle), to: "404, 405" },
  ];
}

function stepTitle({ name, mode, when, timeoutMs }: StepUse): string {
  const limit = timeoutMs === 0 ? "no time limit" : `at most ${timeoutMs} ms`;
  const notes = [
    mode === "shadow" ? "shadow" : "",
    when === undefined ? "" : "when",
    timeoutMs === defaultTimeoutMs ? "" : limit,
  ];
  const shown = notes.filter((note) => note !== "").join(", ");
  return shown === "" ? name : `${name} (${shown})`;
}
