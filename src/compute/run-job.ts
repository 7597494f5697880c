/**
 * Runs the jobs of a thread. A module is imported under its whole URL, because the URL of a plugin's module has a query
 * that changes with each version of its code: see src/pipeline/load/local-modules.ts.
 */
import { registerHooks, type ResolveHookSync } from "node:module";

export interface ThreadJob {
  /** URL of a module whose default export is a function. */
  readonly module: string;
  readonly input: object;
}

type Work = (input: object) => unknown;

const loaded = new Map<string, Promise<Work>>();

/** Gives the modules that a job imports the version of the job, so that they are loaded again together with it. */
const resolve: ResolveHookSync = (specifier, context, next) => {
  const resolved = next(specifier, context);
  const version = /\?v=\d+$/.exec(context.parentURL ?? "")?.[0];
  const { url, format } = resolved;
  const isVersioned = url.startsWith("file:") && !url.includes("/node_modules/");
  if (version === undefined || !isVersioned || url.includes("?")) return resolved;
  if (format?.startsWith("commonjs") === true) return resolved;
  return { ...resolved, url: url + version };
};
registerHooks({ resolve });

export default async function run({ module, input }: ThreadJob): Promise<unknown> {
  let work = loaded.get(module);
  if (work === undefined) {
    work = import(module).then((found: { readonly default: Work }) => found.default);
    loaded.set(module, work);
    work.catch(() => loaded.delete(module));
  }
  return (await work)(input);
}
