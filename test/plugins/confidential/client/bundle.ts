/**
 * The client as a browser gets it: one file, made by the bundler that its users have, without a polyfill or a plugin.
 */
import { build } from "esbuild";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../../", import.meta.url));

export interface Bundle {
  /** An ES module that exports all of the client, and `verifyEvidence`. */
  readonly script: string;
  /** Every file that went into it, from the project's root. */
  readonly files: readonly string[];
}

/** Fails for an import of Node's own modules: a browser has none. */
export async function bundleClient(): Promise<Bundle> {
  const contents = `export * from "./plugins/confidential/client/client.ts";
export { verifyEvidence } from "./plugins/confidential/verify/verify.ts";`;
  const { outputFiles, metafile } = await build({
    stdin: { contents, resolveDir: root, loader: "ts" },
    absWorkingDir: root,
    bundle: true,
    format: "esm",
    platform: "browser",
    target: "es2024",
    write: false,
    metafile: true,
    logLevel: "silent",
  });
  return { script: outputFiles[0]?.text ?? "", files: Object.keys(metafile.inputs) };
}
