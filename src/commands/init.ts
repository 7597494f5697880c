import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { isAbsolute, join, relative, resolve, sep } from "node:path";
import { shownPath } from "../config/fault.ts";
import type { InitParts, InitTemplate } from "../module.ts";
import { packageFile } from "../base/package-files.ts";
import { shippedModules } from "../pipeline/load/modules.ts";
import { makeFolder } from "../store/make-folder.ts";
import { refusePositionals, type Command } from "./command.ts";
import { envExample } from "./env-example.ts";
import { checkWord, optionText } from "./option.ts";

export async function loadTemplates(): Promise<Readonly<Record<string, InitTemplate>>> {
  const parts = await loadParts();
  return Object.fromEntries([
    ["full", full],
    ...parts.flatMap(({ templates = {} }) => Object.entries(templates)),
  ]);
}

const full: InitTemplate = {
  summary: "everything: the file that ships with Sluice",
  file: "pipeline.yaml",
  hasDemo: true,
};

async function loadParts(): Promise<readonly InitParts[]> {
  const { inits } = await shippedModules();
  return Promise.all(inits.map((load) => load()));
}

export const init: Command = {
  summary: "write a pipeline.yaml to start with",
  help: async () => `usage: sluice init [--template NAME] [--dir FOLDER] [--force] [--json]

Writes pipeline.yaml and .env.example and prints the next steps. .env.example lists the environment variables that
pipeline.yaml reads. Existing files are not overwritten.

--template NAME   the pipeline.yaml to write (default: full):
${Object.entries(await loadTemplates())
  .map(([name, { summary }]) => `                    ${name.padEnd(8)}${summary}`)
  .join("\n")}
--dir FOLDER      folder to write to (default: the working folder); it is created if it is missing
--force           overwrite existing files
--json            print { template, files } as one JSON document`,
  options: {
    template: { type: "string" },
    dir: { type: "string" },
    force: { type: "boolean" },
  },
  async run(context, values, positionals) {
    refusePositionals(positionals);
    const templates = await loadTemplates();
    const name = checkWord(
      optionText(values, "template") ?? "full",
      Object.keys(templates),
      "template",
    );
    const template = templates[name] ?? full;
    const parts = await loadParts();
    const folder = resolve(optionText(values, "dir") ?? ".");
    const files = contents(template, folder, parts);
    const force = values["force"] === true;
    const existing = [...files.keys()].filter((file) => existsSync(file));
    if (existing.length > 0 && !force) {
      const names = existing.map((file) => shownPath(file, process.cwd())).join(", ");
      context.printToStderr(
        `init: nothing was written, because these files already exist: ${names}`,
      );
      context.printToStderr(
        "    Choose another folder with --dir, or overwrite the files with --force.",
      );
      return 1;
    }
    try {
      makeFolder(folder);
      for (const [file, content] of files) {
        writeFileSync(file, content, { flag: force ? "w" : "wx" });
      }
    } catch (error) {
      if (!(error instanceof Error && "syscall" in error)) throw error;
      context.printToStderr(`init: cannot write to ${folder}: ${error.message}`);
      return 1;
    }
    const written = [...files.keys()];
    if (context.json) context.print(JSON.stringify({ template: name, files: written }));
    else context.print(nextSteps(template, folder, written, parts));
    return 0;
  },
};

/** Returns the contents by absolute path. */
function contents(
  { file }: InitTemplate,
  folder: string,
  parts: readonly InitParts[],
): ReadonlyMap<string, string> {
  const pipeline = readFileSync(packageFile(file), "utf8");
  const meanings = Object.fromEntries(
    parts.flatMap(({ variables = {} }) => Object.entries(variables)),
  );
  return new Map([
    [join(folder, "pipeline.yaml"), withSchemaFor(pipeline, folder)],
    [join(folder, ".env.example"), envExample(pipeline, meanings)],
  ]);
}

function withSchemaFor(pipeline: string, folder: string): string {
  const line = schemaLine(folder);
  const start = line === undefined ? "" : `${line}\n#\n`;
  return pipeline.replace(/^# yaml-language-server:.*\n#\n/, () => start);
}

/** Returns undefined if this package is not installed below the folder. */
export function schemaLine(folder: string): string | undefined {
  const path = relative(folder, packageFile("pipeline.schema.json"));
  if (path.startsWith("..") || isAbsolute(path)) return undefined;
  return `# yaml-language-server: $schema=./${path.replaceAll(sep, "/")}`;
}

function nextSteps(
  { hasDemo }: InitTemplate,
  folder: string,
  files: readonly string[],
  parts: readonly InitParts[],
): string {
  const where = shownPath(folder, process.cwd());
  const isHere = folder === process.cwd();
  return [
    `Wrote ${files.map((file) => shownPath(file, process.cwd())).join(" and ")}.`,
    `Next steps:

  ${isHere ? "" : `cd ${where}\n  `}cp .env.example .env     # then set the variables that you need
  npx sluice check --env-file .env
  npx sluice start --env-file .env`,
    ...parts.flatMap(({ steps }) => steps ?? []),
    ...(hasDemo ? ["To try the gateway without your own backends, run: npx sluice dev"] : []),
  ].join("\n\n");
}
