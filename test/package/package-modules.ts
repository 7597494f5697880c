/** Preloaded into test files (`node --import`): imports from the checkout come from the folder SLUICE_TEST_PACKAGE. */
import { registerHooks } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const checkout = pathToFileURL(join(import.meta.dirname, "../../")).href;
const installed = pathToFileURL(`${process.env["SLUICE_TEST_PACKAGE"]}/`).href;
const source = /^((?:src|plugins)\/.*)\.ts$/;

registerHooks({
  resolve(specifier, context, nextResolve) {
    const found = nextResolve(specifier, context);
    if (!found.url.startsWith(checkout)) return found;
    const [, stem] = source.exec(found.url.slice(checkout.length)) ?? [];
    return stem === undefined ? found : { url: `${installed}${stem}.js`, format: "module" };
  },
});
