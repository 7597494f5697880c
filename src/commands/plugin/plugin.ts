import { resolve } from "node:path";
import { requiredRules, ruleNames, type Finding } from "../../testing/suite/suite.ts";
import type { Command } from "../command.ts";
import { checkWord, optionTexts } from "../option.ts";
import { runSubcommand, type Subcommand } from "../subcommand.ts";
import { add } from "./add.ts";
import { withPackage } from "./find-plugins.ts";
import { judgePackage, type Judged } from "./judge-package.ts";
import { create } from "./new.ts";

const test: Subcommand = {
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

const subcommands = { new: create, test, add };

export const plugin: Command = {
  summary: "write, test and install plugins",
  help: `usage: sluice plugin new NAME --kind step|surface|tools|service [--dir FOLDER]
       sluice plugin test [FOLDER] [--rule NAME]…
       sluice plugin add PACKAGE[@VERSION] [--list LIST] [--path PATH]

new    writes a package with a plugin of the kind: code, test, README, licence and CI file
test   checks every plugin of a package against the rules of the contract: ${ruleNames.join(", ")}
add    installs a package or a tarball next to pipeline.yaml with npm, without its install scripts, imports its plugins,
       shows what they ask the gateway for, and writes this and their places into pipeline.yaml. Packages that depend on
       a git repository or on a URL are refused. npm audit signatures checks the signatures of what is installed

--kind KIND    kind of the new plugin
--dir FOLDER   folder of the new package (default: its name)
--rule NAME    check this rule only; it can be repeated
--list LIST    add a step to the end of this list of pipeline.yaml; with --path, the list that the new route runs
--path PATH    add a route with this path to a surface (default of --list: the list that most routes run)
--json         print one JSON document
--config FILE  path of pipeline.yaml, for add

FOLDER is the folder of the package's package.json (default: the working folder).`,
  subcommands: Object.keys(subcommands),
  options: {
    kind: { type: "string" },
    dir: { type: "string" },
    rule: { type: "string", multiple: true },
    list: { type: "string" },
    path: { type: "string" },
  },
  run: (context, values, positionals) =>
    runSubcommand("plugin", subcommands, context, values, positionals),
};

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
