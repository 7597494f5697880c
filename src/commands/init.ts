/** `sluice init`: writes a pipeline.yaml to start with, and the list of environment variables that it reads. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { isAbsolute, join, relative, resolve, sep } from "node:path";
import { shownPath } from "../config/fault.ts";
import { packageFile } from "../package-files.ts";
import { makeFolder } from "../store/make-folder.ts";
import { UsageError, type Command, type CommandContext } from "./command.ts";
import { shippedPipeline } from "./config-file.ts";
import { envExample } from "./env-example.ts";
import { checkWord, text } from "./option.ts";

/** Templates by name, with their descriptions. */
const templates = {
  full: "everything: the file that ships with Sluice",
  ai: "chat completions, models and the encrypted stream",
  mcp: "tools for agents: the Model Context Protocol and JSON-RPC",
  proxy: "a reverse proxy that requires an API key, limits the rate and charges each request",
  ledger: "the JSON-RPC API of a Substrate node",
} as const;

export type Template = keyof typeof templates;
// Object.keys returns strings; these are the names of the object above.
export const templateNames = Object.keys(templates) as readonly Template[];

export const init: Command = {
  summary: "write a pipeline.yaml to start with",
  help: `usage: sluice init [--template NAME] [--dir FOLDER] [--force] [--json]

Writes pipeline.yaml and .env.example and prints the next steps. .env.example lists the environment variables that
pipeline.yaml reads. Existing files are not overwritten.

--template NAME   the pipeline.yaml to write (default: full):
${templateNames.map((name) => `                    ${name.padEnd(8)}${templates[name]}`).join("\n")}
--dir FOLDER      folder to write to (default: the working folder); it is created if it is missing
--force           overwrite existing files
--json            print { template, files } as one JSON document`,
  options: {
    template: { type: "string" },
    dir: { type: "string" },
    force: { type: "boolean" },
  },
  async run(context, values, positionals) {
    if (positionals.length > 0) {
      throw new UsageError(`unexpected argument "${positionals.join(" ")}"`);
    }
    const template = checkWord(text(values, "template") ?? "full", templateNames, "template");
    const folder = resolve(text(values, "dir") ?? ".");
    const files = contents(template, folder);
    const force = values["force"] === true;
    const existing = [...files.keys()].filter((file) => existsSync(file));
    if (existing.length > 0 && !force) {
      const names = existing.map((file) => shownPath(file, process.cwd())).join(", ");
      context.complain(`init: nothing was written, because these files already exist: ${names}`);
      context.complain(
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
      context.complain(`init: cannot write to ${folder}: ${error.message}`);
      return 1;
    }
    report(context, template, folder, [...files.keys()]);
    return 0;
  },
};

/** Returns the files to write: their contents by absolute path. */
function contents(template: Template, folder: string): ReadonlyMap<string, string> {
  const pipeline = readFileSync(templateFile(template), "utf8");
  return new Map([
    [join(folder, "pipeline.yaml"), withSchemaFor(pipeline, folder)],
    [join(folder, ".env.example"), envExample(pipeline)],
  ]);
}

/** Returns the path of the file with the text of a template. */
export function templateFile(template: Template): string {
  return template === "full"
    ? shippedPipeline
    : packageFile(`src/commands/templates/${template}.yaml`);
}

function withSchemaFor(pipeline: string, folder: string): string {
  const line = schemaLine(folder);
  const start = line === undefined ? "" : `${line}\n#\n`;
  return pipeline.replace(/^# yaml-language-server:.*\n#\n/, () => start);
}

/** Returns the line with the schema for editors. Undefined if this package is not installed below the folder. */
export function schemaLine(folder: string): string | undefined {
  const path = relative(folder, packageFile("pipeline.schema.json"));
  if (path.startsWith("..") || isAbsolute(path)) return undefined;
  return `# yaml-language-server: $schema=./${path.replaceAll(sep, "/")}`;
}

function report(
  context: CommandContext,
  template: Template,
  folder: string,
  files: readonly string[],
): void {
  if (context.json) return context.print(JSON.stringify({ template, files }));
  const where = shownPath(folder, process.cwd());
  const isHere = folder === process.cwd();
  context.print(`Wrote ${files.map((file) => shownPath(file, process.cwd())).join(" and ")}.

Next steps:

  ${isHere ? "" : `cd ${where}\n  `}cp .env.example .env     # then set the variables that you need
  npx sluice check --env-file .env
  npx sluice start --env-file .env

Then, in a second terminal, create a workspace and an API key:

  npx sluice workspaces create --name acme --plan developer --env-file .env
  npx sluice keys create --workspace ws_… --env-file .env${
    template === "proxy"
      ? ""
      : `

To try the gateway without your own node or model server, run: npx sluice dev`
  }`);
}
