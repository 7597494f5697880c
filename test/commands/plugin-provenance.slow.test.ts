/** `sluice plugin add` with packages of a registry on loopback, which npm checks. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { plugin } from "../../src/commands/plugin/plugin.ts";
import { temporaryFolder } from "../store/folder.ts";
import { commandLine, type CommandLine } from "./command-line.ts";
import { startRegistry, type TestRegistry } from "./plugin-registry.ts";

const name = "acme-tenant";
const version = "1.0.0";
const data = { kind: "step", name, contract: "^1", description: "Does nothing." };

/** Packs a package with one step. */
function packed(t: TestContext): string {
  const folder = join(temporaryFolder(t), "package");
  mkdirSync(folder);
  const write = (file: string, value: object): void =>
    writeFileSync(join(folder, file), JSON.stringify(value));
  write("package.json", { name, version, type: "module", exports: "./index.js" });
  write("sluice-plugin.json", { format: 1, package: name, version, plugins: { ".": data } });
  const code = `export default { ...${JSON.stringify(data)}, start: () => ({}) };`;
  writeFileSync(join(folder, "index.js"), code);
  execFileSync("npm", ["pack", "--silent"], { cwd: folder, stdio: "ignore" });
  return join(folder, `${name}-${version}.tgz`);
}

async function gatewayWith(
  t: TestContext,
  signature: TestRegistry["signature"],
): Promise<CommandLine & { readonly registry: TestRegistry; readonly tarball: string }> {
  const tarball = packed(t);
  const registry = await startRegistry(t, { name, version, tarball });
  registry.signature = signature;
  return { ...commandLine(t), registry, tarball };
}

function lockOf({ folder }: CommandLine): string {
  return readFileSync(join(folder, "pipeline.lock"), "utf8");
}

for (const [signature, state, text] of [
  ["valid", "signed", /^Provenance: signed by the registry; no attestation names its source\.$/m],
  ["none", "unsigned", /^Provenance: not signed, although the registry signs packages\.$/m],
  ["silent", "unknown", /^Provenance: unknown: npm could not check the signatures/m],
] as const) {
  test(`a package is added and its provenance is shown as ${state}`, async (t) => {
    const line = await gatewayWith(t, signature);
    const { code, out, err } = await line.run(plugin, "add", name);
    assert.deepEqual([code, err], [0, []]);
    assert.match(out.join("\n"), text);
    assert.match(lockOf(line), new RegExp(`^acme-tenant: .*, provenance: ${state} \\}$`, "m"));
  });
}

test("a package with a wrong signature is not added", async (t) => {
  const line = await gatewayWith(t, "wrong");
  const { code, err } = await line.run(plugin, "add", name);
  assert.equal(code, 1);
  assert.match(err.join("\n"), /signature or attestation that is not valid/);
  assert.equal(existsSync(join(line.folder, "pipeline.lock")), false);
  assert.doesNotMatch(readFileSync(line.configFile, "utf8"), /acme-tenant/);
});

test("with --require-provenance, a signature is not enough, and a local file is unknown", async (t) => {
  const line = await gatewayWith(t, "valid");
  for (const spec of [name, line.tarball]) {
    const { code, err } = await line.run(plugin, "add", spec, "--require-provenance");
    assert.equal(code, 1);
    assert.match(err.join("\n"), /installed but not added: its provenance is not verified/);
  }
  assert.doesNotMatch(readFileSync(line.configFile, "utf8"), /acme-tenant/);
  const { provenance } = await line.json(plugin, "add", line.tarball);
  assert.deepEqual(provenance, {
    state: "unknown",
    text: "unknown: the package does not come from a registry",
  });
});

test("a version whose provenance is no longer verified is reported", async (t) => {
  const line = await gatewayWith(t, "valid");
  await line.run(plugin, "add", name);
  const lock = lockOf(line);
  writeFileSync(
    join(line.folder, "pipeline.lock"),
    lock.replace("provenance: signed", "provenance: verified"),
  );
  const { code, err } = await line.run(plugin, "add", name);
  assert.equal(code, 0);
  assert.match(err.join("\n"), /the provenance of the earlier version was verified/);
});
