/**
 * Builds the package that is published, in dist/ or in the folder that the command line names: bundled JavaScript, the
 * types of what it exports, and a package.json of its own. Development does not need it: Node runs the TypeScript as it
 * is, but not below node_modules, where it does not strip types.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { allCommands } from "../src/commands/all.ts";
import { assetsOf, copiedFiles, writtenFiles } from "./assets.ts";
import { bundle } from "./bundle.ts";
import { pruneDeclarations } from "./declarations.ts";
import { browserModules, gatewayModules, manifest, modules, root } from "./entry-modules.ts";
import { licencesOf } from "./licences.ts";
import { usedPackages } from "./packages.ts";
import { sbomOf } from "./sbom.ts";

const minNode = 24;
const dist = resolve(process.argv[2] ?? join(root, "dist"));

/** src/plugin.ts is published as src/plugin.js with src/plugin.d.ts beside it. */
function built(path: string): { types: string; default: string } | string {
  if (!path.endsWith(".ts")) return path;
  const stem = path.slice(0, -".ts".length);
  return { types: `${stem}.d.ts`, default: `${stem}.js` };
}

function publishedManifest(): object {
  const {
    devDependencies: _,
    scripts: __,
    allowScripts: ___,
    knip: ____,
    overrides: _____,
    exports,
    bin,
    ...rest
  } = manifest;
  return {
    ...rest,
    // Not in a checkout, where the devDependency `node` runs everything, whatever node there is otherwise.
    engines: { node: `>=${minNode}` },
    // The exported types refer to Node's, which every TypeScript project for Node has.
    peerDependencies: { "@types/node": `>=${minNode}` },
    peerDependenciesMeta: { "@types/node": { optional: true } },
    exports: Object.fromEntries(Object.entries(exports).map(([name, path]) => [name, built(path)])),
    bin: Object.fromEntries(
      Object.entries(bin).map(([name, path]) => [name, path.replace(/\.ts$/, ".js")]),
    ),
  };
}

function write(path: string, text: string): void {
  const file = join(dist, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

rmSync(dist, { recursive: true, force: true });
// The types of what package.json exports, and of what these types refer to.
const project = join(dist, "tsconfig.json");
const files = modules.filter((path) => path !== "src/main.ts").map((path) => join(root, path));
write(
  "tsconfig.json",
  JSON.stringify({ extends: join(import.meta.dirname, "tsconfig.build.json"), files }),
);
// With several threads, the compiler checks some types more than once, which takes a third more CPU time.
execFileSync("tsc", ["-p", project, "--outDir", dist, "--singleThreaded"], { stdio: "inherit" });
rmSync(project);
const exported = Object.entries(manifest.exports).filter(([, path]) => path.endsWith(".ts"));
const unknownTypes = [
  ...pruneDeclarations(
    dist,
    Object.fromEntries(exported.map(([name, path]) => [join(manifest.name, name), path])),
  ),
].filter((name) => !name.startsWith("node:"));
if (unknownTypes.length > 0) {
  throw new Error(
    `the exported types need packages that users do not have: ${unknownTypes.join(", ")}`,
  );
}
const bundled = await bundle(root, dist, gatewayModules, browserModules);
// npm leaves links out, and the chart has two. The option `dereference` of cpSync fails for a link to a file.
for (const asset of assetsOf(root)) cpSync(realpathSync(join(root, asset)), join(dist, asset));
for (const [path, source] of Object.entries(copiedFiles)) {
  cpSync(join(root, source), join(dist, path));
}
for (const [path, text] of await writtenFiles()) write(path, text);
const copied = Object.values(copiedFiles);
const packages = usedPackages(root, [...bundled, ...copied]);
write("THIRD-PARTY-LICENCES.txt", licencesOf(root, packages));
write("sbom.cdx.json", `${JSON.stringify(sbomOf(manifest, packages), undefined, 2)}\n`);
write("package.json", `${JSON.stringify(publishedManifest(), undefined, 2)}\n`);
// An old Node cannot load the bundle, so the command first checks the version, in syntax that every Node reads.
const commands = Object.entries(await allCommands());
const servers = new Map(
  commands.flatMap(([name, { semiSpaceMiB }]) =>
    semiSpaceMiB === undefined ? [] : [[name, semiSpaceMiB]],
  ),
);
write(
  "src/bundle.js",
  `import { runBundle } from "./commands/run-bundle.js";
export const modules = runBundle(import.meta.dirname, import.meta.resolve, ${JSON.stringify([...servers.keys()])});
`,
);
write(
  "src/main.js",
  `#!/usr/bin/env node
if (Number.parseInt(process.versions.node, 10) >= ${minNode}) {
  const semiSpaceMiB = new Map(${JSON.stringify([...servers])}).get(process.argv[2]);
  if (semiSpaceMiB !== undefined) {
    (await import("./commands/server-process.js")).becomeServerProcess(semiSpaceMiB);
  }
  (await import("./bundle.js")).modules["src/main"]();
} else {
  console.error(
    \`sluice requires Node ${minNode} or later; this is Node \${process.versions.node}. Install a newer one: npm install node, or https://nodejs.org\`,
  );
  process.exitCode = 1;
}
`,
);
chmodSync(join(dist, "src/main.js"), 0o755);
console.log(`built ${dist}: publish it with \`npm publish ${dist}\``);
