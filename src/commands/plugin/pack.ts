/**
 * `sluice plugin pack`: builds the JavaScript of a package of plugins, runs the contract suite and packs the package
 * for npm.
 */
import { execFile } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import type { Operation } from "../../plugin.ts";
import { dataOf, pluginFileFormat, pluginFileName } from "../../pipeline/load/plugin-file.ts";
import { documentedOperations } from "../../testing/suite/manifest-rules.ts";
import type { Subcommand } from "../subcommand.ts";
import {
  findPlugins,
  PackageError,
  readManifest,
  type FoundPlugin,
  type PackageManifest,
} from "./find-plugins.ts";
import { addOptions } from "./new.ts";
import { judgePackage } from "./judge-package.ts";
import { asText, isGood, titleOf, withPackage } from "./test.ts";

const run = promisify(execFile);

export const pack: Subcommand = {
  options: [],
  arguments: [],
  optional: ["FOLDER"],
  run: (context, _, given = ".") =>
    withPackage(context, async () => {
      const folder = resolve(given);
      const manifest = readManifest(folder);
      checkBundled(manifest);
      const judged = await judgePackage(folder, { signal: context.signal });
      if (!isGood(judged)) {
        for (const each of judged) {
          const lines = [titleOf(each), ...each.findings.flatMap(asText)];
          for (const line of lines) context.printToStderr(line);
        }
        throw new PackageError("nothing was packed, because the package breaks these rules");
      }
      const found = await findPlugins(folder);
      const dist = join(folder, "dist");
      rmSync(dist, { recursive: true, force: true });
      const hasTypes = await build(folder, dist, manifest);
      const file = join(dist, pluginFileName);
      writeFileSync(file, jsonText(await pluginFile(manifest, found)));
      const published = publishedManifest(manifest, hasTypes);
      writeFileSync(join(dist, "package.json"), jsonText(published));
      const tarball = await npmPack(dist, folder);
      if (context.json) context.print(JSON.stringify({ tarball, plugins: found.map(nameOf) }));
      else context.print(nextSteps(tarball, found));
      return 0;
    }),
};

/** Throws PackageError for a package that bundles others, which `build` would not copy. */
function checkBundled(manifest: PackageManifest): void {
  for (const member of ["bundleDependencies", "bundledDependencies"]) {
    const bundled = manifest[member];
    const isNone = bundled === undefined || bundled === false;
    if (isNone || (Array.isArray(bundled) && bundled.length === 0)) continue;
    throw new PackageError(
      `package.json has \`${member}\`, which sluice plugin pack does not support; list these packages under \`dependencies\` only`,
    );
  }
}

function nextSteps(tarball: string, found: readonly FoundPlugin[]): string {
  const shown = relative(process.cwd(), tarball);
  const options = new Map(found.map(({ plugin }) => [plugin.kind, addOptions(plugin)]));
  return `Packed ${shown}.

Add it to a gateway, in the folder of its pipeline.yaml:
  npx sluice plugin add ${tarball}${[...options.values()].join("")}
Publish it:
  npm publish ${shown.startsWith(".") ? shown : `./${shown}`}`;
}

function nameOf({ plugin }: FoundPlugin): string {
  return plugin.name;
}

function jsonText(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}

async function pluginFile(
  manifest: PackageManifest,
  found: readonly FoundPlugin[],
): Promise<object> {
  const plugins: Record<string, object> = {};
  for (const { entry, plugin, example } of found) {
    const operation = await operationOf(plugin, example);
    plugins[entry] = { ...dataOf(plugin), ...(operation !== undefined && { operation }) };
  }
  const { name, version } = manifest;
  return { format: pluginFileFormat, package: name, version, plugins };
}

/** Returns the documented operation for the request of the example. Undefined if the plugin documents none. */
async function operationOf(
  plugin: FoundPlugin["plugin"],
  example: FoundPlugin["example"],
): Promise<Operation | undefined> {
  if (!("operation" in plugin) || plugin.operation === undefined) return undefined;
  const operations = await documentedOperations({ plugin, example, patienceMs: 0 });
  const method = example.request?.method ?? (example.request?.body === undefined ? "GET" : "POST");
  const wanted = operations.find((each) => each.method === method) ?? operations[0];
  return plugin.kind === "step" ? wanted?.parts[0] : wanted?.parts.at(-1);
}

/** An import of another file of the package. Imports of types have been removed from JavaScript. */
const localImport = /(\bfrom\s*|\bimport\s*\(?\s*)(["'])(\.{1,2}\/[^"']+)\2/g;

/**
 * Writes the JavaScript of the exported modules and of the files that they import, the files that package.json lists
 * under `files`, and README and licence. Returns whether it has also written declarations.
 */
async function build(folder: string, dist: string, manifest: PackageManifest): Promise<boolean> {
  const waiting = Object.values(manifest.exports).map((file) => join(folder, file));
  const done = new Set<string>();
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (done.has(path)) continue;
    done.add(path);
    const place = relative(folder, path);
    if (place.startsWith("..")) throw new PackageError(`${path} is located outside of the package`);
    if (!existsSync(path)) throw new PackageError(`${path} does not exist`);
    const target = join(dist, place.replace(/\.ts$/, ".js"));
    mkdirSync(dirname(target), { recursive: true });
    if (!/\.[cm]?[jt]s$/.test(path)) {
      cpSync(path, target);
      continue;
    }
    const code = javaScriptOf(path);
    for (const [, , , name = ""] of code.matchAll(localImport))
      waiting.push(join(dirname(path), name));
    writeFileSync(
      target,
      code.replaceAll(localImport, (whole) => whole.replace(/\.ts(["'])$/, ".js$1")),
    );
  }
  const files = Array.isArray(manifest["files"]) ? manifest["files"].map(String) : [];
  for (const name of [...files, "README.md", "LICENSE"]) {
    const path = join(folder, name);
    if (existsSync(path)) cpSync(path, join(dist, name), { recursive: true });
  }
  return writeDeclarations(folder, dist, manifest);
}

function javaScriptOf(path: string): string {
  const text = readFileSync(path, "utf8");
  if (!path.endsWith(".ts")) return text;
  // Node prints a warning for this function, which is of no use to the author of a plugin.
  const emitWarning = process.emitWarning.bind(process);
  process.emitWarning = () => {};
  try {
    // Types are replaced by spaces, so that positions in stack traces remain. Spaces at the ends of lines have no use.
    return stripTypeScriptTypes(text).replaceAll(/[ \t]+$/gm, "");
  } catch (error) {
    throw new PackageError(`${path}: ${String(error)}`);
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** Writes declarations with the compiler of the package, if it has one. Returns false if it has none. */
async function writeDeclarations(
  folder: string,
  dist: string,
  manifest: PackageManifest,
): Promise<boolean> {
  const tsc = join(folder, "node_modules/.bin/tsc");
  const sources = Object.values(manifest.exports).filter((file) => file.endsWith(".ts"));
  if (!existsSync(tsc) || !existsSync(join(folder, "tsconfig.json")) || sources.length === 0) {
    return false;
  }
  const project = join(dist, "tsconfig.json");
  const compilerOptions = {
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    rootDir: "..",
    outDir: ".",
  };
  const files = sources.map((file) => join("..", file));
  writeFileSync(
    project,
    jsonText({ extends: "../tsconfig.json", compilerOptions, files, include: [] }),
  );
  try {
    await run(tsc, ["-p", project]);
  } catch (error) {
    throw new PackageError(`the compiler found errors:\n${outputOf(error)}`);
  } finally {
    rmSync(project);
  }
  return true;
}

/** Returns the package.json to publish, which names the JavaScript and omits what only development needs. */
function publishedManifest(manifest: PackageManifest, hasTypes: boolean): object {
  const { scripts: _, devDependencies: __, files: ___, exports, ...rest } = manifest;
  const published = Object.entries(exports).map(([name, file]) => {
    const isSource = file.endsWith(".ts");
    const code = isSource ? file.replace(/\.ts$/, ".js") : file;
    const types = file.replace(/\.ts$/, ".d.ts");
    return [name, isSource && hasTypes ? { types, default: code } : code] as const;
  });
  const own = `./${pluginFileName}`;
  return { ...rest, exports: { ...Object.fromEntries(published), [own]: own } };
}

async function npmPack(dist: string, folder: string): Promise<string> {
  try {
    const args = ["pack", dist, "--pack-destination", folder, "--json", "--ignore-scripts"];
    const { stdout } = await run("npm", args, { cwd: folder });
    // npm prints a list with one element, or from version 12 on an object with one member.
    const [packed] = Object.values(
      JSON.parse(stdout) as Record<string, { readonly filename: string }>,
    );
    return join(folder, packed?.filename ?? "");
  } catch (error) {
    throw new PackageError(`npm pack failed:\n${npmErrors(error)}`);
  }
}

/** Returns the lines of npm that say what went wrong. */
export function npmErrors(error: unknown): string {
  const lines = outputOf(error)
    .split("\n")
    .flatMap((line) => /^npm (?:error|ERR!) (.*\S)/.exec(line)?.[1] ?? [])
    .filter((line) => !/^\s+at |^\s+\w+: |^\}/.test(line));
  return lines.length === 0 ? outputOf(error) : lines.map((line) => `  ${line}`).join("\n");
}

function outputOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
  return `${stdout}${stderr}`.trim() || error.message;
}
