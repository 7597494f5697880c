/** A user's TypeScript project that imports every entry point of the package, with nothing but what npm installs. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { installPackage } from "./package-fixture.ts";

const installed = installPackage();
const { app, main } = installed;
after(() => installed[Symbol.dispose]());

const root = join(import.meta.dirname, "../..");
const tsc = join(dirname(fileURLToPath(import.meta.resolve("typescript/package.json"))), "bin/tsc");
const strict = { strict: true, skipLibCheck: false, noEmit: true };

/** Compiles one file in a folder of the user's. Returns what the compiler prints. */
function compile(name: string, source: string, compilerOptions: object): string {
  const folder = join(app, name);
  mkdirSync(folder);
  writeFileSync(join(folder, "index.ts"), source);
  writeFileSync(
    join(folder, "tsconfig.json"),
    JSON.stringify({ compilerOptions: { ...strict, ...compilerOptions }, files: ["index.ts"] }),
  );
  writeFileSync(join(folder, "package.json"), `{ "type": "module" }`);
  const { stdout, stderr } = spawnSync(process.execPath, [tsc, "-p", folder], { encoding: "utf8" });
  return stdout + stderr;
}

// Every TypeScript project for Node has these types. The package lists them as an optional peer dependency.
for (const name of ["@types/node", "undici-types"]) {
  const target = join(app, "node_modules", name);
  cpSync(join(root, "node_modules", name), target, { recursive: true });
}

test("the types of every entry point compile under strict, with skipLibCheck off", () => {
  // The build writes this file.
  const manifest = JSON.parse(readFileSync(join(dirname(main), "../package.json"), "utf8")) as {
    exports: Record<string, string | object>;
    peerDependencies: Record<string, string>;
  };
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
