import { globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { build, type BuildOptions, type Metafile, type Plugin } from "esbuild";
import manifest from "../package.json" with { type: "json" };
import { compiledSchemas } from "./compiled-schemas.ts";
import { compiledMetaSchemas } from "./meta-schemas.ts";
import { programs, startModules } from "./entry-modules.ts";

/** npm installs these packages next to Sluice, and the bundler of a web page chooses the variants that fit. */
const installed = Object.keys(manifest.dependencies);
/** Native and optional packages of Piscina and pg, which Sluice does not use. */
const unused = ["@napi-rs/nice", "pg-native"];

/** Large packages that a start rarely needs. Each is a file of its own, which the first module that imports it loads. */
const apart = [
  "@modelcontextprotocol/client",
  "ajv/dist/2020.js",
  "fastify",
  "hash-wasm",
  "ioredis",
  "jose",
  "marked",
  "openid-client",
  "pg",
  "yaml",
];

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
 * `modules`: what package.json exports and runs for Node. `browserModules`: what it exports for browsers too. Returns
 * the paths of all files that the bundles contain.
 */
export async function bundle(
  root: string,
  dist: string,
  modules: readonly string[],
  browserModules: readonly string[],
): Promise<ReadonlySet<string>> {
  const inRoot = { ...common, absWorkingDir: root, metafile: true as const };
  const forNode = {
    ...inRoot,
    platform: "node" as const,
    external: unused,
    plugins: [schemas, externalModules, shippedFiles(root), keptFiles],
  };
  const alone = [...threadModules(root), ...startModules];
  const bundled = modules.filter((path) => !alone.includes(path));
  const results = [
    // Everything that runs in the main thread of a gateway is one file, so that each module has one instance there, and
    // Node finds, reads and links one module.
    await build({
      ...forNode,
      stdin: { contents: registryOf(root, bundled), resolveDir: root, sourcefile: "registry.js" },
      outfile: join(dist, "src/sluice.cjs"),
      format: "cjs",
      plugins: [packagesApart, importOutside, ...forNode.plugins],
      banner: {
        js: `(function(module,require,__filename,__dirname,__url,__resolve,__kept,__import){"use strict";`,
      },
      footer: { js: "})" },
      define: {
        "import.meta.url": "__url",
        "import.meta.filename": "__filename",
        "import.meta.dirname": "__dirname",
        "import.meta.resolve": "__resolve",
      },
    }),
    // A thread loads only what it runs.
    await build({
      ...forNode,
      entryPoints: [
        // The start modules run before the bundle is loaded.
        ...alone.map(entry),
        // Piscina starts its threads with this file, which it expects next to its own code.
        { in: "node_modules/piscina/dist/worker.js", out: "src/worker" },
      ],
      outdir: dist,
      banner: { js: nodeVariables },
    }),
    await build({
      ...inRoot,
      entryPoints: apart.map((name) => ({ in: name, out: chunkOf(name) })),
      external: unused,
      outdir: join(dist, "src/chunks"),
      outExtension: { ".js": ".cjs" },
      format: "cjs",
      platform: "node",
    }),
    await build({
      ...inRoot,
      entryPoints: browserModules.map(entry),
      outdir: dist,
      chunkNames: "plugins/client/[name]-[hash]",
      splitting: true,
      platform: "neutral",
      // A program's uncaught error prints the line of the client that threw it. Web pages have their own minifier.
      minifyWhitespace: false,
      target: "es2024",
      external: installed,
    }),
  ];
  for (const { metafile } of results) refuseCommonJs(metafile);
  await writeEntries({ ...forNode, outdir: dist }, bundled);
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

/** Returns the module that loads the others of the bundle by their path in the package, without suffix. */
function registryOf(root: string, modules: readonly string[]): string {
  return `export const modules = {${modules
    .map(
      (path) =>
        `${JSON.stringify(stemOf(path))}: () => require(${JSON.stringify(resolve(root, path))})`,
    )
    .join(",\n")}};`;
}

/**
 * Writes the files that package.json exports or runs for modules of the bundle, which src/bundle.js runs. Another build
 * finds the names that they export.
 */
async function writeEntries(
  options: BuildOptions & { readonly absWorkingDir: string; readonly outdir: string },
  modules: readonly string[],
): Promise<void> {
  const { absWorkingDir, outdir } = options;
  const { metafile } = await build({
    ...options,
    entryPoints: modules.map(entry),
    metafile: true,
    splitting: true,
    write: false,
  });
  for (const [output, { entryPoint, exports }] of Object.entries(metafile.outputs)) {
    if (entryPoint === undefined) continue;
    const file = resolve(absWorkingDir, output);
    const stem = relative(outdir, file).replace(/\.js$/, "");
    const names = exports.filter((name) => name !== "default");
    const lines = [
      `import { modules } from "./${relative(dirname(file), join(outdir, "src/bundle.js"))}";`,
      `const _ = modules[${JSON.stringify(stem)}]();`,
      ...(names.length > 0 ? [`export const { ${names.join(", ")} } = _;`] : []),
      ...(exports.includes("default") ? ["export default _.default;"] : []),
    ];
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `${lines.join("\n")}\n`);
  }
}

function threadModules(root: string): ReadonlySet<string> {
  const files = globSync("{src,plugins}/**/*.ts", { cwd: root });
  return new Set(
    files
      .flatMap((file) => [
        ...readFileSync(join(root, file), "utf8").matchAll(/threadModule\("([^"]+)"\)/g),
      ])
      .map(([, path]) => `${path}.ts`)
      .filter((path) => !programs.includes(path)),
  );
}

function stemOf(path: string): string {
  return path.replace(/\.ts$/, "");
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
    bundler.onLoad({ filter: /\/src\/base\/compiled-schemas\.ts$/ }, async () => ({
      contents: await compiledSchemas(bundler.initialOptions.absWorkingDir ?? ""),
      loader: "js",
    }));
    bundler.onLoad({ filter: /\/src\/base\/meta-schemas\.ts$/ }, () => ({
      contents: compiledMetaSchemas(),
      loader: "js",
    }));
  },
};

/**
 * When an ES module imports a module of Node, Node reads all its exports, also those that load much more code, such as
 * the WebSocket client of `node:http`. `getBuiltinModule` reads none. Packages that npm installs are loaded with the
 * first module that imports them, not with the bundle, except for one that is small and that every start needs.
 */
const externalModules: Plugin = {
  name: "external-modules",
  setup(bundler) {
    const loaded = installed.filter((name) => name !== "@noble/hashes");
    const packages = new RegExp(`^(node:|(${loaded.join("|")})(/|$))`);
    bundler.onResolve({ filter: packages }, ({ path, kind }) => {
      if (kind === "import-statement") return { path, namespace: "external" };
      return { path, external: true };
    });
    bundler.onLoad({ filter: /^/, namespace: "external" }, ({ path }) => ({
      contents: path.startsWith("node:")
        ? builtinModule(path)
        : `module.exports = require(${JSON.stringify(path)});`,
      loader: "js",
    }));
  },
};

/**
 * Returns an ES module with the exports of a module of Node, of which esbuild keeps those that are used. For a CommonJS
 * module, it would make an object with a getter per export in every module that imports it. These were 14,000 getters,
 * which took 1.7 MiB, and V8 cannot inline a function that a getter returns.
 */
function builtinModule(path: string): string {
  const names = Object.keys(process.getBuiltinModule(path) ?? {}).filter(
    (name) => name !== "default",
  );
  return [
    `const $module = process.getBuiltinModule(${JSON.stringify(path)});`,
    "const $read = (name) => $module[name];",
    "export default $module;",
    ...names.map((name) => `export const ${name} = /* @__PURE__ */ $read("${name}");`),
  ].join("\n");
}

function chunkOf(path: string): string {
  return path.replace(/\/dist\/.*/, "");
}

const packagesApart: Plugin = {
  name: "packages-apart",
  setup(bundler) {
    bundler.onResolve({ filter: new RegExp(`^(${apart.join("|")})$`) }, ({ path }) => {
      return { path, namespace: "apart" };
    });
    bundler.onLoad({ filter: /^/, namespace: "apart" }, ({ path }) => ({
      contents: `module.exports = require(${JSON.stringify(`./chunks/${chunkOf(path)}.cjs`)});`,
      loader: "js",
    }));
    bundler.onResolve({ filter: /^/, namespace: "apart" }, ({ path }) => ({
      path,
      external: true,
    }));
  },
};

/** Replaces src/import-module.ts in the bundle. */
const importOutside: Plugin = {
  name: "import-outside",
  setup(bundler) {
    bundler.onLoad({ filter: /\/src\/import-module\.ts$/ }, () => ({
      contents: "export const importModule = __import;",
      loader: "js",
    }));
  },
};

/** Replaces src/kept-files.ts. The modules that run before the bundle do not call these functions. */
const keptFiles: Plugin = {
  name: "kept-files",
  setup(bundler) {
    bundler.onLoad({ filter: /\/src\/kept-files\.ts$/ }, () => ({
      contents: ["keepCompiledCode", "readKept", "writeKept"]
        .map((name) => `export const ${name} = (...values) => __kept.${name}(...values);`)
        .join("\n"),
      loader: "js",
    }));
  },
};

function shippedFiles(root: string): Plugin {
  return {
    name: "shipped-files",
    setup(bundler) {
      bundler.onLoad({ filter: /\/src\/shipped-files\.ts$/ }, () => {
        const files = globSync("plugins/{*/module,*/*/index}.ts", { cwd: root }).toSorted();
        const loaders = files.map(
          (path) => `${JSON.stringify(path)}: () => import(${JSON.stringify(join(root, path))})`,
        );
        const contents = `const files = {${loaders.join()}};\nexport const shippedFiles = () => files;`;
        return { contents, loader: "js" };
      });
    },
  };
}
