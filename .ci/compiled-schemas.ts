/**
 * Generates the module that replaces src/base/compiled-schemas.ts in the bundle: validators of the schemas that a gateway
 * compiles when it starts with the shipped pipeline.yaml, and of the options of all other plugins that ship with it.
 */
import { globSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { _ } from "ajv/dist/2020.js";
import standaloneCode from "ajv/dist/standalone/index.js";
import { createAjv } from "../src/base/ajv.ts";
import { locate } from "../src/config/located.ts";
import { validate } from "../src/config/validate.ts";
import { checkFile } from "../src/pipeline/load/check-file.ts";
import { dryRun } from "../src/pipeline/load/dry-run.ts";
import type { Plugin } from "../src/plugin.ts";
import { recordSchemas, type CompilerRecord } from "../src/base/schema-compiler.ts";

/** Returns JavaScript that imports parts of ajv, so it must be bundled. `root`: the checkout. */
export async function compiledSchemas(root: string): Promise<string> {
  const records = recordSchemas();
  const checked = await checkFile(join(root, "pipeline.yaml"), {});
  const { faults } = await dryRun(checked, {});
  if (faults.length > 0) throw new Error(`pipeline.yaml: ${faults[0]?.message}`);
  for (const file of globSync("plugins/*/*/index.ts", { cwd: root }).toSorted()) {
    // The linter and the tests check that these files export a plugin.
    const { default: plugin } = (await import(pathToFileURL(join(root, file)).href)) as {
      default: Plugin;
    };
    if (plugin.options !== undefined) validate(locate({}, noPosition), plugin.options);
  }
  // A verbose validator runs only for a file with faults, and its code is three times as large.
  const compilers = Array.from(records)
    .filter(([, { options }]) => options.verbose !== true)
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  const makers = compilers.map(([name, record]) => `${JSON.stringify(name)}: ${makerOf(record)}`);
  return `const compilers = {\n${makers.join(",\n")}\n};
export function compiledSchemas(compiler, formats) {
  return Object.hasOwn(compilers, compiler) ? compilers[compiler](formats) : undefined;
}
`;
}

const noPosition = { file: "", line: 1, col: 1 };

/** Returns the source of a function of the formats that returns the validators by the hash of their schema. */
function makerOf({ options, schemas }: CompilerRecord): string {
  const ajv = createAjv(options, { code: { source: true, formats: _`formats` } });
  const keys = [...schemas.keys()].toSorted();
  for (const key of keys) ajv.addSchema(schemas.get(key) ?? {}, key);
  // The types of this package describe its CommonJS form.
  const generate = standaloneCode as unknown as typeof standaloneCode.default;
  const source = generate(ajv, Object.fromEntries(keys.map((key) => [key, key])));
  const code = options.messages === false ? shortened(source) : source;
  return `(formats) => { const exports = {};\n${code}\nreturn exports; }`;
}

/** Removes what src/config/validate.ts does not read of an error. It is half of the code. */
function shortened(source: string): string {
  return source.replaceAll(
    /\.errors = \[\{(instancePath:.*?),schemaPath:".*?",(keyword:"(\w+)".*?)\}\];return false/g,
    (_all, path: string, rest: string, keyword: string) => {
      const isRead = ["type", "enum", "const"].includes(keyword);
      return `.errors = [${isRead ? `{${path},${rest}}` : ""}];return false`;
    },
  );
}
