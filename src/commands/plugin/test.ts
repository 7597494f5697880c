import { resolve } from "node:path";
import { requiredRules, ruleNames, type Finding } from "../../testing/suite/suite.ts";
import type { CommandContext } from "../command.ts";
import { checkWord, optionTexts } from "../option.ts";
import type { Subcommand } from "../subcommand.ts";
import { PackageError } from "./find-plugins.ts";
import { judgePackage, type Judged } from "./judge-package.ts";

export const test: Subcommand = {
  options: ["rule"],
  arguments: [],
  optional: ["FOLDER"],
  run: (context, values, folder = ".") =>
    withPackage(context, async () => {
      const { json, print, signal } = context;
      const only = optionTexts(values, "rule")?.map((each) => checkWord(each, ruleNames, "rule"));
      const onProgress = (each: Judged, finding?: Finding): void => {
        if (json) return;
        for (const line of finding === undefined ? [titleOf(each)] : asText(finding)) print(line);
      };
      const judged = await judgePackage(resolve(folder), { signal, only, onProgress });
      if (json) print(JSON.stringify({ ok: isGood(judged), plugins: judged }));
      return isGood(judged) ? 0 : 1;
    }),
};

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

function isGood(judged: readonly Judged[]): boolean {
  return judged.every(({ findings }) => findings.every(({ problems }) => problems.length === 0));
}

function titleOf({ name, kind, file }: Judged): string {
  return `${name} (${kind}, ${file})`;
}

function asText({ rule, problems }: Finding): string[] {
  if (problems.length === 0) return [`  ok    ${rule}`];
  const lines = problems.map(
    (problem) => `  FAIL  ${rule}: ${problem.replaceAll("\n", "\n        ")}`,
  );
  // Without these rules, the plugin cannot be judged further.
  if (requiredRules.has(rule))
    lines.push("  The other rules were not checked, because of this one.");
  return lines;
}
