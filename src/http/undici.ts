/**
 * undici, the HTTP client for occasional requests: polled documents, probes, exports. Proxied requests use
 * `Http1Client`.
 */
import { createRequire } from "node:module";
import type * as Undici from "undici";
import { codeSuffix, packageFile } from "../base/package-files.ts";

const require = createRequire(import.meta.url);
/** The build puts undici into a file of its own (.ci/bundle.ts). */
const source = codeSuffix === ".ts" ? "undici" : packageFile("src/chunks/undici.cjs");

/**
 * Loads undici on first use, which saves 3 to 4 MiB in a gateway that only uses nodes. Call it during the start, because
 * the first call reads and runs about a hundred files.
 */
export function undici(): typeof Undici {
  // `require` returns any. These are the package's own types.
  return require(source) as typeof Undici;
}
