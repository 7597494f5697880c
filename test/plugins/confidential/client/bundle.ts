/** Bundles the client for a browser into one file, with a common bundler and without polyfills or plugins. */
import { build } from "esbuild";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../../", import.meta.url));

export interface Bundle {
  /** An ES module that exports what `contents` exports: by default all of the client. */
  readonly script: string;
  readonly files: readonly string[];
}

const confidentialClient = `export * from "./plugins/confidential/client/client.ts";`;

/** Builds the bundle. Rejects if a file imports one of Node's modules, which browsers do not have. */
export async function bundleClient(contents = confidentialClient): Promise<Bundle> {
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
