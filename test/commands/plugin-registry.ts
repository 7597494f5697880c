/** A registry of npm on loopback with one package, which it signs as the test wants. */
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { scriptedUpstream, type UpstreamReply } from "../../src/testing/scripted-upstream.ts";
import { temporaryFolder } from "../store/folder.ts";

const keyid = "SHA256:test";
const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });

/**
 * Stands in for the key list of Sigstore, which npm reads from the internet. npm then reads the keys from the registry.
 */
const withoutSigstore = `
const { Module } = require("node:module");
const load = Module._load;
const getTarget = () => Promise.reject(Object.assign(new Error("none"), { code: "TUF_FIND_TARGET_ERROR" }));
Module._load = (name, ...rest) =>
  name === "@sigstore/tuf" ? { initTUF: () => Promise.resolve({ getTarget }) } : load(name, ...rest);
`;

export interface TestRegistry {
  /** `valid`: a signature of the registry; `none`: it signs, but not this package; `silent`: it answers 405. */
  signature: "valid" | "wrong" | "none" | "silent";
}

/** Starts the registry, and makes npm use it until the test ends. */
export async function startRegistry(
  t: TestContext,
  { name, version, tarball }: { name: string; version: string; tarball: string },
): Promise<TestRegistry> {
  const bytes = readFileSync(tarball);
  const integrity = `sha512-${createHash("sha512").update(bytes).digest("base64")}`;
  const registry: TestRegistry = { signature: "valid" };
  const packument = (): object => {
    const signed = registry.signature === "valid" ? `${name}@${version}:${integrity}` : "other";
    const sig = sign("sha256", Buffer.from(signed), pair.privateKey).toString("base64");
    const hasSignature = registry.signature === "valid" || registry.signature === "wrong";
    const dist = {
      tarball: `${upstream.url}/tarball.tgz`,
      integrity,
      ...(hasSignature && { signatures: [{ keyid, sig }] }),
    };
    return {
      name,
      "dist-tags": { latest: version },
      versions: { [version]: { name, version, dist } },
    };
  };
  const keys = (): UpstreamReply => {
    if (registry.signature === "silent") return { status: 405 };
    const key = pair.publicKey.export({ type: "spki", format: "der" }).toString("base64");
    const about = { keytype: "ecdsa-sha2-nistp256", scheme: "ecdsa-sha2-nistp256" };
    return { body: { keys: [{ expires: null, keyid, ...about, key }] } };
  };
  const upstream = await scriptedUpstream(({ path }) => {
    if (path === "/tarball.tgz") return { body: bytes };
    if (path === "/-/npm/v1/keys") return keys();
    return path === `/${name}` ? { body: packument() } : { status: 404, body: {} };
  });
  t.after(() => upstream[Symbol.asyncDispose]());
  const folder = temporaryFolder(t);
  const preload = join(folder, "without-sigstore.cjs");
  writeFileSync(preload, withoutSigstore);
  setVariables(t, {
    npm_config_registry: upstream.url,
    npm_config_cache: join(folder, "cache"),
    NODE_OPTIONS: `--require=${preload}`,
  });
  return registry;
}

function setVariables(t: TestContext, variables: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(variables)) {
    const before = process.env[name];
    process.env[name] = value;
    t.after(() => {
      if (before === undefined) delete process.env[name];
      else process.env[name] = before;
    });
  }
}
