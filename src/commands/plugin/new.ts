import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { shownPath } from "../../config/fault.ts";
import { contractVersion } from "../../contract/version.ts";
import { packageFile } from "../../base/package-files.ts";
import { makeFolder } from "../../store/make-folder.ts";
import { shippedPlugins } from "../../pipeline/load/load.ts";
import type { Plugin } from "../../plugin.ts";
import { version } from "../../base/version.ts";
import { UsageError } from "../command.ts";
import { checkWord, optionText } from "../option.ts";
import type { Subcommand } from "../subcommand.ts";

const kinds = ["step", "surface", "tools", "service"] as const;

function addOptions({ name, kind }: Pick<Plugin, "name" | "kind">): string {
  return { step: " --list LIST", surface: ` --path /${name}`, tools: "", service: "" }[kind];
}

/** Sentences of the README about `sluice plugin add`. */
const places = {
  step: "This adds the step to the end of a list of pipeline.yaml. `LIST` is the name of the list, such as `edge`.",
  surface: "This adds a route with the path to pipeline.yaml.",
  tools: "This adds the plugin under `tools:` in pipeline.yaml.",
  service: "Then write its options into a section `NAME:` of pipeline.yaml.",
};

const common: Readonly<Record<string, string>> = {
  "package.json": "package.json",
  "tsconfig.json": "tsconfig.json",
  "README.md": "README.md",
  LICENSE: "LICENSE",
  ".gitignore": "gitignore",
  ".github/workflows/ci.yaml": "ci.yaml",
};

export const create: Subcommand = {
  options: ["kind", "dir"],
  arguments: ["NAME"],
  run(context, values, name = "") {
    const given = optionText(values, "kind");
    if (given === undefined) {
      throw new UsageError(`missing option --kind, expected one of ${kinds.join(", ")}`);
    }
    const kind = checkWord(given, kinds, "kind");
    const pluginName = name.replace(/^@[^/]*\//, "").replace(/^sluice-plugin-/, "");
    if (!/^(@[a-z0-9-]+\/)?[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name) || pluginName === "") {
      throw new UsageError(`expected a name in kebab case, such as acme-tenant, got "${name}"`);
    }
    if (shippedPlugins().has(pluginName)) {
      throw new UsageError(`a plugin that ships with Sluice has the name "${pluginName}"`);
    }
    const folder = resolve(optionText(values, "dir") ?? pluginName);
    if (
      statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true &&
      readdirSync(folder).length > 0
    ) {
      context.printToStderr(`plugin new: nothing was written, because ${folder} is not empty`);
      return Promise.resolve(1);
    }
    const files = {
      ...common,
      "index.ts": `${kind}.ts`,
      "index.example.ts": `${kind}.example.ts`,
      "index.test.ts": `${kind}.test.ts`,
    };
    const words: Readonly<Record<string, string>> = {
      PACKAGE: name,
      NAME: pluginName,
      TOOL: pluginName.replaceAll("-", "_"),
      KIND: kind,
      ADDOPTIONS: addOptions({ name: pluginName, kind }),
      PLACE: places[kind].replace("NAME", pluginName),
      VERSION: version,
      CONTRACT: contractVersion,
      YEAR: String(new Date().getFullYear()),
    };
    try {
      for (const [path, template] of Object.entries(files)) {
        const target = join(folder, path);
        makeFolder(dirname(target));
        const source = packageFile(`src/commands/plugin/templates/${template}.txt`);
        const text = readFileSync(source, "utf8");
        writeFileSync(
          target,
          text.replaceAll(/__([A-Z]+)__/g, (_, word: string) => words[word] ?? ""),
        );
      }
    } catch (error) {
      if (!(error instanceof Error && "syscall" in error)) throw error;
      context.printToStderr(`plugin new: cannot write to ${folder}: ${error.message}`);
      return Promise.resolve(1);
    }
    const written = Object.keys(files).map((path) => join(folder, path));
    if (context.json) context.print(JSON.stringify({ name: pluginName, kind, files: written }));
    else context.print(nextSteps(shownPath(folder, process.cwd()), pluginName));
    return Promise.resolve(0);
  },
};

function nextSteps(where: string, name: string): string {
  return `Wrote the plugin ${name} to ${where}.
Next steps:

  cd ${where}
  npm install
  npm run check && npm test
  npm pack`;
}
