/** Starts a whole gateway with services that a test defines in code, and a route that uses them. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineSurface, type Plugin } from "../../src/plugin.ts";
import { startBareGateway, type BareGateway } from "../../src/testing/gateway.ts";
import type { ManualClock } from "../../src/testing/clock.ts";

/** The plugins by the folder of their gateway and by name. The files of plugins read them. */
const plugins = new Map<string, Plugin>();
Object.assign(globalThis, { pluginsOfTests: plugins });

export interface ServiceGateway extends BareGateway {
  reload(sections: object): Promise<readonly unknown[]>;
}

export async function startWithServices(
  services: readonly Plugin[],
  { file = {}, clock }: { readonly file?: object; readonly clock?: ManualClock } = {},
): Promise<ServiceGateway> {
  const names = services.map(({ name }) => name);
  const page = defineSurface({
    name: "page",
    description: "Answers.",
    // TypeScript does not know the names of the services that tests define.
    uses: names as never[],
    start: () => ({ answer: () => ({ status: 200, body: "served" }) }),
  });
  const all = [page, ...services];
  const textOf = (sections: object): string =>
    JSON.stringify({
      version: 1,
      server: { port: 0 },
      admin: { port: 0 },
      store: { data: "${DATA_DIR}" },
      plugins: Object.fromEntries(all.map(({ name }) => [name, `./${name}.mjs`])),
      routes: [{ path: "/", to: "page" }],
      ...file,
      ...sections,
    });
  const gateway = await startBareGateway({
    pipeline: textOf({}),
    ...(clock && { clock }),
    prepare(folder) {
      for (const plugin of all) {
        const key = join(folder, plugin.name);
        plugins.set(key, plugin);
        const code = `export default globalThis.pluginsOfTests.get(${JSON.stringify(key)});`;
        writeFileSync(`${key}.mjs`, code);
      }
    },
  });
  return {
    ...gateway,
    async reload(sections) {
      await gateway.write(textOf(sections));
      return gateway.gateway.reloader.reload("test");
    },
  };
}
