/** `sluice plugin test`: runs the contract suite on the plugins of a package. */
import { resolve } from "node:path";
import { judge, requiredRules, ruleNames, type Finding } from "../../testing/suite/suite.ts";
import type { CommandContext } from "../command.ts";
import { checkWord, optionTexts } from "../option.ts";
import type { Subcommand } from "../subcommand.ts";
import { findPlugins, PackageError, type FoundPlugin } from "./find-plugins.ts";

interface Judged extends FoundPlugin {
  readonly findings: readonly Finding[];
}

export const test: Subcommand = {
  options: ["rule"],
  arguments: [],
  optional: ["FOLDER"],
  run: (context, values, folder = ".") =>
    withPackage(context, async () => {
      const only = optionTexts(values, "rule")?.map((each) => checkWord(each, ruleNames, "rule"));
      const judged = await judgeAll(await findPlugins(resolve(folder)), only);
      if (context.json)
        context.print(JSON.stringify({ ok: isGood(judged), plugins: asJson(judged) }));
      else for (const line of asText(judged)) context.print(line);
      return isGood(judged) ? 0 : 1;
    }),
};

/** Runs `work`. If it throws a PackageError, prints the message and returns 1. */
export async function withPackage(
  context: CommandContext,
  work: () => Promise<0 | 1>,
): Promise<0 | 1> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof PackageError)) throw error;
    context.printToStderr(`plugin: ${error.message}`);
    return 1;
  }
}

export async function judgeAll(
  found: readonly FoundPlugin[],
  only?: readonly string[],
): Promise<Judged[]> {
  const judged: Judged[] = [];
  for (const each of found) {
    const { plugin, example } = each;
    const findings = await judge(plugin, { example, ...(only !== undefined && { only }) });
    judged.push({ ...each, findings });
  }
  return judged;
}

export function isGood(judged: readonly Judged[]): boolean {
  return judged.every(({ findings }) => findings.every(({ problems }) => problems.length === 0));
}

export function asText(judged: readonly Judged[]): string[] {
  return judged.flatMap(({ plugin, file, findings }) => [
    `${plugin.name} (${plugin.kind}, ${file})`,
    ...findings.flatMap(({ rule, problems }) =>
      problems.length === 0
        ? [`  ok    ${rule}`]
        : problems.map((problem) => `  FAIL  ${rule}: ${problem.replaceAll("\n", "\n        ")}`),
    ),
    ...(isStopped(findings) ? ["  The other rules were not checked, because of this one."] : []),
  ]);
}

/** Returns whether the plugin broke a rule without which it cannot be judged further. */
function isStopped(findings: readonly Finding[]): boolean {
  const last = findings.at(-1);
  return last !== undefined && requiredRules.has(last.rule) && last.problems.length > 0;
}

function asJson(judged: readonly Judged[]): object[] {
  return judged.map(({ plugin: { name, kind }, file, findings }) => ({
    name,
    kind,
    file,
    findings,
  }));
}
