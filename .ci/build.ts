/**
 * Builds the package that is published: JavaScript and types, with a package.json of its own, in dist/ or in the folder
 * that the command line names. Development does not need it: Node runs the TypeScript as it is, but not below
 * node_modules, where it does not strip types.
 */
import { execFileSync } from "node:child_process";
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { assetsOf } from "./assets.ts";

const root = join(import.meta.dirname, "..");
const dist = resolve(process.argv[2] ?? join(root, "dist"));

interface Manifest {
  exports: Record<string, string>;
  bin: Record<string, string>;
  [field: string]: unknown;
}

/** src/plugin.ts is published as src/plugin.js with src/plugin.d.ts beside it. */
function built(path: string): { types: string; default: string } | string {
  if (!path.endsWith(".ts")) return path;
  const stem = path.slice(0, -".ts".length);
  return { types: `${stem}.d.ts`, default: `${stem}.js` };
}

function publishedManifest(): object {
  // Our own package.json: its fields are the ones declared above.
  const source = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;
  const {
    devDependencies: _,
    scripts: __,
    allowScripts: ___,
    knip: ____,
    exports,
    bin,
    ...rest
  } = source;
  return {
    ...rest,
    // Not in a checkout, where the devDependency `node` runs everything, whatever node there is otherwise.
    engines: { node: ">=24" },
    exports: Object.fromEntries(Object.entries(exports).map(([name, path]) => [name, built(path)])),
    bin: Object.fromEntries(
      Object.entries(bin).map(([name, path]) => [name, path.replace(/\.ts$/, ".js")]),
    ),
  };
}

rmSync(dist, { recursive: true, force: true });
const project = join(import.meta.dirname, "tsconfig.build.json");
execFileSync("tsc", ["-p", project, "--outDir", dist], { stdio: "inherit" });
for (const asset of assetsOf(root)) {
  cpSync(join(root, asset), join(dist, asset), { recursive: true });
}
writeFileSync(join(dist, "package.json"), `${JSON.stringify(publishedManifest(), undefined, 2)}\n`);
console.log(`built ${dist}: publish it with \`npm publish ${dist}\``);
