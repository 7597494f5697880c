import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { systemClock } from "../base/clock.ts";
import { errorCode } from "../base/error-code.ts";
import { routeTitle } from "../config/check.ts";
import { defaultTimeoutMs, type Config, type StepUse } from "../config/config.ts";
import { fault, orderFaults, printFault, shownPath, type Fault } from "../config/fault.ts";
import { productionFaults } from "../config/production.ts";
import { publishedSchema } from "../config/publish.ts";
import { expiryProblem, readTls, TlsError } from "../http/tls.ts";
import { loadShipped } from "../pipeline/load/load.ts";
import { shippedModules } from "../pipeline/load/modules.ts";
import { checkFile, type CheckResult, type ValidatedConfig } from "../pipeline/load/check-file.ts";
import { dryRun } from "../pipeline/load/dry-run.ts";
import { shippedPipeline } from "./config-file.ts";
import {
  refusePositionals,
  UsageError,
  type Command,
  type CommandContext,
  type OptionValues,
} from "./command.ts";
import { githubLines, sarifLog } from "./fault-formats.ts";
import { unknownValueMessage } from "./subcommand.ts";

export const check: Command = {
  summary: "check pipeline.yaml without opening a port",
  help: `usage: sluice check [--config FILE] [--strict] [--online] [--format text|json|sarif|github] [--write-schema FILE]

Reads pipeline.yaml, loads its plugins, checks their order and starts each plugin without listening. Prints every fault
with its position, its code and a remedy. Without faults, it prints the order of the steps of each route.

  --strict              also report valid settings that should not go to production, such as a missing secret or URLs
                        without TLS. Run it with the variables of production
  --online              also connect to the database of store.postgres, and report if its tables are missing or older than
                        this release, if it can lose commits, if the clock of this host differs by more than a second, or
                        if running gateways differ from this file in settings that must be equal; and report if the Redis
                        of store.redis does not answer
  --format FORMAT       text (default), json, sarif (SARIF 2.1.0, for code scanning) or github (annotations of a pull
                        request in GitHub Actions)
  --write-schema FILE   write the JSON Schema of pipeline.yaml to FILE, for completion in editors. It has the options of
                        all plugins that ship with Sluice and of those that pipeline.yaml names
  --json                the same as --format json: print { ok, file, faults, linked, routes } as one JSON document

Exit code 0 without faults, else 1.`,
  mayUseShippedPipeline: true,
  options: {
    "write-schema": { type: "string" },
    strict: { type: "boolean" },
    online: { type: "boolean" },
    format: { type: "string" },
  },
  async run(context, values, positionals) {
    refusePositionals(positionals);
    const format = wantedFormat(context, values["format"]);
    const checked = await checkFile(context.configFile, context.env);
    const { validated, faults: found } = await dryRun(checked, context.env);
    const faults = [...found];
    if (values["strict"] === true) faults.push(...(await strictFaults(checked)));
    if (values["online"] === true && checked.startable !== undefined) {
      const { onlineFaults } = await import("./online-check.ts");
      faults.push(...(await onlineFaults(checked.startable.config, systemClock)));
    }
    const linked = checked.startable === undefined ? [] : linkedPlugins(checked.startable);
    const target = values["write-schema"];
    if (typeof target === "string" && validated !== undefined) {
      const { plugins } = await loadShipped();
      const all = new Map([...plugins, ...validated.plugins]);
      await writeSchema(target, schemaText(publishedSchema(all.values())));
    }
    print[format](context, { validated, faults, linked });
    return faults.length === 0 ? 0 : 1;
  },
};

async function writeSchema(target: string, schema: string): Promise<void> {
  try {
    await writeFile(resolve(target), schema);
  } catch (error) {
    throw new UsageError(`--write-schema: cannot write "${target}" (${errorCode(error)})`);
  }
}

async function strictFaults({ startable }: CheckResult): Promise<readonly Fault[]> {
  if (startable === undefined) return [];
  const { production } = await shippedModules();
  const { plugins } = startable.config;
  const ofLinks = linkedPlugins(startable).map(({ plugin, package: name, file }) => {
    const message = `the plugin "${plugin}" is local code, because the package ${name} is a link to ${file}`;
    return fault("SLUICE_STRICT_LINKED", message, { at: plugins.get(plugin)?.at });
  });
  const { config } = startable;
  return orderFaults([
    ...productionFaults(config, production),
    ...certificateFaults(config),
    ...ofLinks,
  ]);
}

/** A certificate that cannot be read is a fault without --strict, too. */
function certificateFaults(config: Config): Fault[] {
  const { tls } = config.server;
  if (tls === undefined) return [];
  let problem: string | undefined;
  try {
    problem = expiryProblem(readTls(tls).period, systemClock.now());
  } catch (error) {
    if (!(error instanceof TlsError)) throw error;
  }
  if (problem === undefined) return [];
  const at = config.keyAt("/server/tls/cert");
  return [fault("SLUICE_STRICT_CERTIFICATE", `the certificate ${tls.cert} ${problem}`, { at })];
}

/** A plugin that pipeline.yaml names by a package which is a link to local code, as `npm link` makes it. */
interface LinkedPlugin {
  readonly plugin: string;
  readonly package: string | undefined;
  readonly file: string | undefined;
}

function linkedPlugins({ origins }: ValidatedConfig): readonly LinkedPlugin[] {
  return [...origins]
    .filter(([, { from }]) => from === "link")
    .map(([plugin, { source, file }]) => ({ plugin, package: source, file }));
}

interface Found {
  readonly validated: ValidatedConfig | undefined;
  readonly faults: readonly Fault[];
  readonly linked: readonly LinkedPlugin[];
}

type Print = (context: CommandContext, found: Found) => void;

const print = {
  text: printProse,
  json: printJson,
  sarif: ({ print: line }, { faults }) => line(JSON.stringify(sarifLog(faults, process.cwd()))),
  github(context, found) {
    for (const line of githubLines(found.faults, process.cwd())) context.print(line);
    // GitHub Actions shows other lines in the log without a change.
    if (found.faults.length === 0) printProse(context, found);
  },
} as const satisfies Record<string, Print>;

function wantedFormat({ json }: CommandContext, format: OptionValues[string]): keyof typeof print {
  if (format === undefined) return json ? "json" : "text";
  if (json) throw new UsageError("--json and --format cannot be used together");
  const formats = Object.keys(print);
  if (typeof format === "string" && isFormat(format)) return format;
  throw new UsageError(`--format: ${unknownValueMessage(String(format), formats)}`);
}

function isFormat(text: string): text is keyof typeof print {
  return Object.hasOwn(print, text);
}

export function schemaText(schema: object): string {
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}

function printJson(context: CommandContext, { validated, faults, linked }: Found): void {
  const cwd = process.cwd();
  const shown = faults.map(({ at, ...rest }) => ({
    ...rest,
    ...(at !== undefined && { file: shownPath(at.file, cwd), line: at.line, col: at.col }),
  }));
  context.print(
    JSON.stringify({
      ok: faults.length === 0,
      file: shownPath(context.configFile, cwd),
      faults: shown,
      linked,
      ...(validated !== undefined && { routes: orderOf(validated.config) }),
    }),
  );
}

function printProse(context: CommandContext, { validated, faults, linked }: Found): void {
  const cwd = process.cwd();
  for (const each of faults) context.print(printFault(each, cwd));
  const file = shownPath(context.configFile, cwd);
  if (faults.length > 0) {
    context.printToStderr(`${file}: ${faults.length} ${faults.length === 1 ? "fault" : "faults"}`);
  } else if (validated !== undefined) {
    context.print(`${file} has no faults.\n`);
    if (context.configFile === shippedPipeline && file !== "pipeline.yaml") {
      context.print(
        "It is the file that ships with Sluice. To write your own, run npx sluice init.\n",
      );
    }
    for (const line of printOrder(validated.config)) context.print(line);
    if (linked.length > 0) context.print("\nLocal code under the name of a package:");
    for (const { plugin, package: name, file: module = "" } of linked) {
      context.print(`  ${plugin}: ${name} is a link to ${shownPath(module, cwd)}`);
    }
  }
}

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

function stepTitle({ name, mode, when, timeoutMs, onError }: StepUse): string {
  const limit = timeoutMs === 0 ? "no time limit" : `at most ${timeoutMs} ms`;
  const notes = [
    mode === "shadow" ? "shadow" : "",
    when === undefined ? "" : "when",
    timeoutMs === defaultTimeoutMs ? "" : limit,
    onError === "skip" ? "skipped on error" : "",
  ];
  const shown = notes.filter((note) => note !== "").join(", ");
  return shown === "" ? name : `${name} (${shown})`;
}
