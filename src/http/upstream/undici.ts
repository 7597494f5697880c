/** undici, loaded by whoever needs it first: 3 to 4 MiB that a gateway in front of nodes alone does without. */
import { createRequire } from "node:module";
import type * as Undici from "undici";

const require = createRequire(import.meta.url);

/** Call it while starting: the first call reads and runs a hundred files. */
export function undici(): typeof Undici {
  // `require` has no types; these are the package's own.
  return require("undici") as typeof Undici;
}
