/** `sluice docs index`: makes the index of the documentation ahead of the start. */
import { dirname, relative, resolve } from "node:path";
import { UnreadableDocs } from "../../plugins/docs-search/folders.ts";
import type { DocsSearchOptions } from "../../plugins/docs-search/index.ts";
import { makeLibrary, writeLibrary, type Library } from "../../plugins/docs-search/library.ts";
import type { PluginUse } from "../config/config.ts";
import { fault, printFault } from "../config/fault.ts";
import { checkFile } from "../pipeline/check-file.ts";
import { UsageError, type Command, type CommandContext } from "./command.ts";
import { text } from "./option.ts";
import { runSubcommand, type Subcommand } from "./subcommand.ts";

const indexDocs: Subcommand = {
  options: ["out"],
  arguments: [],
  async run(context, values) {
    const use = await docsSearch(context);
    if (use === undefined) return 1;
    // Its options were checked against the plugin's schema, which describes DocsSearchOptions.
    const options = use.options as unknown as DocsSearchOptions;
    const base = dirname(context.configFile);
    const file = target(text(values, "out"), options.index, base);
    try {
      const library = await makeLibrary(options, base);
      await writeLibrary(file, library, { own: options.own, folders: options.folders });
      report(context, file, library);
      return 0;
    } catch (error) {
      if (!(error instanceof UnreadableDocs || isSystemError(error))) throw error;
      complain(context, error.message, use);
      return 1;
    }
  },
};

/** Where pipeline.yaml uses the plugin; undefined, with the reason told, when it does not. */
async function docsSearch(context: CommandContext): Promise<PluginUse | undefined> {
  const { checked, faults } = await checkFile(context.configFile, context.env);
  for (const one of faults) context.complain(printFault(one, process.cwd()));
  if (checked === undefined) return undefined;
  const use = checked.config.tools.find(({ name }) => name === "docs-search");
  if (use === undefined) {
    context.complain(`${context.configFile} has no docs-search under \`tools:\``);
  }
  return use;
}

/** `--out` counts from where the command runs, the plugin's own option from pipeline.yaml. */
function target(out: string | undefined, index: string | undefined, base: string): string {
  if (out !== undefined) return resolve(out);
  if (index !== undefined) return resolve(base, index);
  throw new UsageError("docs index: --out is missing, and docs-search has no option `index`");
}

function report(context: CommandContext, file: string, { pages, index }: Library): void {
  const shown = relative(process.cwd(), file);
  const paragraphs = index.paragraphs.length;
  if (context.json) {
    context.print(JSON.stringify({ file: shown, pages: pages.length, paragraphs }));
  } else context.print(`${shown}: ${pages.length} pages, ${paragraphs} paragraphs`);
}

function complain(context: CommandContext, message: string, { at }: PluginUse): void {
  context.complain(printFault(fault("SLUICE_PLUGIN_START", message, { at }), process.cwd()));
}

function isSystemError(error: unknown): error is Error {
  return error instanceof Error && "syscall" in error;
}

export const docs: Command = {
  summary: "index the documentation for docs_search",
  help: `usage: sluice docs index [--out FILE]

Reads the Markdown that docs-search in pipeline.yaml names (Sluice's own documentation and \`folders\`) and writes the
index to a file. With \`docs-search: { index: FILE }\` a start loads that file and needs the folders no more.

  --out FILE    where to write; absent: the option \`index\` of docs-search
  --json        print { file, pages, paragraphs }
  --config FILE the pipeline.yaml`,
  options: { out: { type: "string" } },
  async run(context, values, positionals) {
    return runSubcommand("docs", { index: indexDocs }, context, values, positionals);
  },
};
