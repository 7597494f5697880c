/** Bundles the sources with the packages that they use, except for those that npm installs next to Sluice. */
import { globSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { build, type BuildOptions, type Metafile, type Plugin } from "esbuild";
import manifest from "../package.json" with { type: "json" };
import { compiledSchemas } from "./compiled-schemas.ts";
import { compiledMetaSchemas } from "./meta-schemas.ts";

/** npm installs these packages next to Sluice, and the bundler of a web page chooses the variants that fit. */
const installed = Object.keys(manifest.dependencies);
/** Native and optional packages of Piscina and pg, which Sluice does not use. */
const unused = ["@napi-rs/nice", "pg-native"];

const common: BuildOptions = {
  bundle: true,
  format: "esm",
  target: "node24",
  // Names stay as they are, so that a stack trace can be read.
  minifyWhitespace: true,
  minifySyntax: true,
  // V8 stores a text with a character beyond Latin-1 with two bytes per character.
  charset: "ascii",
  legalComments: "none",
  logLevel: "warning",
};

/**
 * Writes the bundles to `dist`. `modules`: what package.json exports and runs for Node. `browserModules`: what it
 * exports for browsers too. Returns the paths of all files that the bundles contain.
 */
export async function bundle(
  root: string,
  dist: string,
  modules: readonly string[],
  browserModules: readonly string[],
): Promise<ReadonlySet<string>> {
  const inRoot = { ...common, absWorkingDir: root, metafile: true as const };
  const results = [
    // One run for everything that runs in a gateway, so that each module has one instance there.
    await build({
      ...inRoot,
      entryPoints: [
        ...Array.from(entryPoints(root, modules), entry),
        // Piscina starts its threads with this file, which it expects next to its own code.
        { in: "node_modules/piscina/dist/worker.js", out: "src/chunks/worker" },
      ],
      outdir: dist,
      chunkNames: "src/chunks/[name]-[hash]",
      splitting: true,
      platform: "node",
      external: [...installed, ...unused],
      banner: { js: nodeVariables },
      plugins: [schemas, nodeModules],
    }),
    // src/http/undici.ts and src/schema-compiler.ts load these files when they need them.
    await build({
      ...inRoot,
      entryPoints: [
        { in: "node_modules/undici/index.js", out: "undici" },
        { in: "node_modules/ajv/dist/2020.js", out: "ajv" },
      ],
      outdir: join(dist, "src/chunks"),
      outExtension: { ".js": ".cjs" },
      format: "cjs",
      platform: "node",
    }),
    await build({
      ...inRoot,
      entryPoints: browserModules.map(entry),
      outdir: dist,
      chunkNames: "plugins/confidential/client/[name]-[hash]",
      splitting: true,
      platform: "neutral",
      // A program's uncaught error prints the line of the client that threw it. Web pages have their own minifier.
      minifyWhitespace: false,
      target: "es2024",
      external: installed,
    }),
  ];
  for (const { metafile } of results) refuseCommonJs(metafile);
  renameChunks(dist);
  return new Set(results.flatMap(({ metafile }) => Object.keys(metafile.inputs)));
}

/**
 * Throws if a module is loaded with `import()`, is bundled and is a CommonJS module. Node finds the names that such a
 * module exports, but esbuild makes a chunk of it that exports only `default`, so all these names are undefined.
 */
function refuseCommonJs({ inputs }: Metafile): void {
  for (const [importer, { imports }] of Object.entries(inputs)) {
    for (const { path, kind } of imports) {
      if (kind === "dynamic-import" && inputs[path]?.format === "cjs") {
        throw new Error(`${importer}: import() of ${path}, a CommonJS module that is bundled`);
      }
    }
  }
}

/**
 * Gives the chunks that only other files import the suffix .mjs. For a file with the suffix .js, Node looks for the
 * package.json that says whether it is an ES module. A start loads more than 200 files, so that took 9 % of its CPU
 * time, and 3 MiB.
 */
function renameChunks(dist: string): void {
  const chunks = globSync("src/chunks/*-*.js", { cwd: dist });
  const names = new Set(chunks.map((chunk) => basename(chunk)));
  for (const path of globSync("{src,plugins}/**/*.js", { cwd: dist })) {
    const file = join(dist, path);
    const text = readFileSync(file, "utf8");
    const renamed = text.replaceAll(/\/([\w.-]+)\.js"/g, (found, stem: string) =>
      names.has(`${stem}.js`) ? `/${stem}.mjs"` : found,
    );
    if (renamed !== text) writeFileSync(file, renamed);
  }
  for (const chunk of chunks) {
    renameSync(join(dist, chunk), join(dist, chunk.replace(/\.js$/, ".mjs")));
  }
}

/**
 * Returns the modules that need a file of their own in the published package, relative to `root`: what package.json
 * exports or runs, what the gateway finds by its path, and what threads run.
 */
function entryPoints(root: string, modules: readonly string[]): ReadonlySet<string> {
  const found = globSync("plugins/{*/module,*/*/index}.ts", { cwd: root });
  const threads = globSync("{src,plugins}/**/*.ts", { cwd: root }).flatMap((file) =>
    [...readFileSync(join(root, file), "utf8").matchAll(/threadModule\("([^"]+)"\)/g)].map(
      ([, path]) => `${path}.ts`,
    ),
  );
  return new Set([...modules, ...found, ...threads]);
}

function entry(path: string): { in: string; out: string } {
  return { in: path, out: path.replace(/\.ts$/, "") };
}

/** CommonJS packages use these variables, which do not exist in an ES module. */
const nodeVariables =
  'const require=process.getBuiltinModule("node:module").createRequire(import.meta.url),' +
  "__filename=import.meta.filename,__dirname=import.meta.dirname;";

const schemas: Plugin = {
  name: "schemas",
  setup(bundler) {
    bundler.onLoad({ filter: /\/src\/compiled-schemas\.ts$/ }, async () => ({
      contents: await compiledSchemas(bundler.initialOptions.absWorkingDir ?? ""),
      loader: "js",
    }));
    bundler.onLoad({ filter: /\/src\/meta-schemas\.ts$/ }, () => ({
      contents: compiledMetaSchemas(),
      loader: "js",
    }));
  },
};

/**
 * When an ES module imports a module of Node, Node reads all its exports, also those that load much more code, such as
 * the WebSocket client of `node:http`. `getBuiltinModule` reads none.
 */
const nodeModules: Plugin = {
  name: "node-modules",
  setup(bundler) {
    bundler.onResolve({ filter: /^node:/ }, ({ path, kind }) =>
      kind === "import-statement" ? { path, namespace: "node" } : undefined,
    );
    bundler.onLoad({ filter: /^/, namespace: "node" }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)});`,
      loader: "js",
    }));
  },
};
