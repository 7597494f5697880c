/** The types of the package in a TypeScript project of a user, and new plugins, which compile against them and are packed. */
import assert from "node:assert/strict";
import { spawnSync, execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { contractVersion } from "../../src/plugin.ts";
import { installPackage } from "./package-fixture.ts";

const installed = await installPackage();
const { app, main } = installed;
after(() => installed[Symbol.dispose]());

const root = join(import.meta.dirname, "../..");
const tsc = join(dirname(fileURLToPath(import.meta.resolve("typescript/package.json"))), "bin/tsc");
/** Comments of declarations, which contain no strings. */
const comments = /^\s*\/\*\*?[\s\S]*?\*\/\n/gm;
const strict = { strict: true, skipLibCheck: false, noEmit: true };

function compile(name: string, source: string, compilerOptions: object): string {
  const folder = join(app, name);
  mkdirSync(folder);
  writeFileSync(join(folder, "index.ts"), source);
  writeFileSync(
    join(folder, "tsconfig.json"),
    JSON.stringify({ compilerOptions: { ...strict, ...compilerOptions }, files: ["index.ts"] }),
  );
  writeFileSync(join(folder, "package.json"), `{ "type": "module" }`);
  const args = [tsc, "-p", folder, "--singleThreaded"];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  return stdout + stderr;
}

// Every TypeScript project for Node has these types. The package lists them as an optional peer dependency.
for (const name of ["@types/node", "undici-types"]) {
  const target = join(app, "node_modules", name);
  cpSync(join(root, "node_modules", name), target, { recursive: true });
}

function packageManifest(): {
  readonly exports: Record<string, string | { readonly types: string }>;
  readonly peerDependencies: Record<string, string>;
} {
  // The build writes this file.
  return JSON.parse(readFileSync(join(dirname(main), "../package.json"), "utf8")) as ReturnType<
    typeof packageManifest
  >;
}

test("the types of every entry point compile under strict, with skipLibCheck off", () => {
  const manifest = packageManifest();
  assert.deepEqual(Object.keys(manifest.peerDependencies), ["@types/node"]);
  const entries = Object.keys(manifest.exports).filter((name) => !name.endsWith(".json"));
  assert.ok(entries.length > 10);
  const imports = entries.map(
    (name, at) => `import * as entry${at} from "sluice-gateway${name.slice(1)}";`,
  );
  const uses = entries.map((_, at) => `entry${at}`).join(", ");
  const plugin = `import { defineStep, refuse } from "sluice-gateway/plugin";
export default defineStep<{ readonly limit: number }>({
  name: "gate",
  description: "Refuses every request.",
  options: { type: "object", properties: { limit: { type: "integer" } }, additionalProperties: false },
  start: ({ limit }) => ({
    requestHeaders: (x) => (x.request.path.length > limit ? refuse("GATEWAY_NOT_FOUND") : undefined),
  }),
});`;
  const source = [...imports, `export const all: object[] = [${uses}];`, plugin].join("\n");
  const options = { module: "nodenext", target: "es2024", types: ["node"] };
  assert.equal(compile("for-node", source, options), "");
});

function declarationsOf(entry: string): string {
  const exported = packageManifest().exports[`./${entry}`];
  assert.ok(typeof exported === "object", entry);
  return normalize(exported.types);
}

/** Files with the types of services that nearly every plugin uses: Tool, Charge and Principal. */
const contractServices = ["tool", "meter", "principal"];

/**
 * Returns the declarations that `sluice-gateway/plugin` and these files refer to, without comments, ordered by path.
 */
function contractTypes(): string {
  const types = new Map<string, string>();
  const services = dirname(declarationsOf("services"));
  const waiting = contractServices.map((name) => join(services, `${name}.d.ts`));
  waiting.push(declarationsOf("plugin"));
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (types.has(path)) continue;
    const text = readFileSync(join(dirname(main), "..", path), "utf8").replaceAll(comments, "");
    types.set(path, text);
    for (const [, name = ""] of text.matchAll(/"(\.[^"]+)\.ts"/g)) {
      waiting.push(join(dirname(path), `${name}.d.ts`));
    }
  }
  const sorted = [...types].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return sorted.map(([path, text]) => `\n== ${path}\n${text}`).join("");
}

test("the types of the contract are those of its recorded version", () => {
  const types = `version ${contractVersion}\n${contractTypes()}`;
  const path = join(import.meta.dirname, "plugin-contract.txt");
  if (process.env["UPDATE"] === "1") writeFileSync(path, types);
  assert.ok(
    types === readFileSync(path, "utf8"),
    "The contract has changed: raise contractVersion, add an entry to docs/contract-changes.md, and run this test with UPDATE=1.",
  );
});

test("the client compiles for a browser, without the types of Node", () => {
  const source = `import { connect } from "sluice-gateway/client";\nexport const open: typeof connect = connect;`;
  const options = {
    module: "esnext",
    moduleResolution: "bundler",
    target: "es2024",
    lib: ["es2024", "dom"],
    types: [],
  };
  assert.equal(compile("for-browsers", source, options), "");
});

const { NODE_TEST_CONTEXT: _, ...env } = process.env;
function run(folder: string, ...args: readonly string[]): void {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: folder,
    env,
    encoding: "utf8",
  });
  assert.equal(status, 0, stdout + stderr);
}

const oxlint = join(root, "node_modules/.bin/oxlint");

for (const kind of ["step", "surface", "tools", "service"]) {
  test(`a new ${kind} compiles, passes its lint rules and its tests, and is packed`, () => {
    const folder = join(app, kind);
    run(app, main, "plugin", "new", `acme-${kind}`, "--kind", kind, "--dir", folder);
    run(folder, tsc, "-p", folder, "--singleThreaded");
    run(folder, oxlint, "--deny-warnings");
    run(folder, "--test");
    run(folder, main, "plugin", "test");
    const args = ["pack", "--dry-run", "--ignore-scripts", "--json"];
    const packed = execFileSync("npm", args, { cwd: folder, env, encoding: "utf8" });
    assert.match(packed, /"dist\/index\.d\.ts"/);
    assert.doesNotMatch(packed, /index\.(test|example)/);
  });
}
