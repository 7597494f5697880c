/**
 * The libraries of the page: names of files below page/, and the modules of npm that they are copies of. A checkout
 * serves them from node_modules, and the published package contains them under these names.
 */
export const vendored: Readonly<Record<string, string>> = {
  "lib/preact.js": "preact",
  "lib/hooks.js": "preact/hooks",
  "lib/signals-core.js": "@preact/signals-core",
  "lib/signals.js": "@preact/signals",
  "lib/htm.js": "htm",
  "lib/uplot.js": "uplot/dist/uPlot.esm.js",
  "lib/uplot.css": "uplot/dist/uPlot.min.css",
};

/** Browsers do not resolve the names of modules, and an import map would be an inline script. */
export function withServedImports(code: string): string {
  const files = new Map(Object.entries(vendored).map(([file, module]) => [module, file]));
  return code.replaceAll(/\bfrom\s*"([^"\s]+)"/g, (found, module: string) => {
    const file = files.get(module);
    return file === undefined ? found : `from"../${file}"`;
  });
}
