/**
 * Renders docs/plugin-catalogue.md: the model plugins from their files sluice-plugin.json, without running their code,
 * and the plugins that ship with Sluice from their modules.
 */
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  grantsOfData,
  dataOf,
  type PluginData,
  type PluginFile,
} from "../../src/pipeline/load/plugin-file.ts";
import { loadShipped, shippedPlugins } from "../../src/pipeline/load/load.ts";
import { isObject } from "../../src/is-object.ts";
import { optionTable } from "./option-table.ts";
import { root } from "./tables.ts";

/** A plugin, with the path of the page or folder that describes it, relative to docs/. */
interface Listed {
  readonly data: PluginData;
  readonly link: string;
}

const heading = `# Plugin catalogue

This page is generated from the manifests of the plugins. A package of plugins contains its manifests as data in the file
\`sluice-plugin.json\`, which \`sluice plugin pack\` writes. The manifests of the model plugins are read from these files.
Those of the plugins that ship with Sluice are read from their modules. [Writing plugins](writing-plugins.md) explains the terms.

An option without a default can be left out if it is not required. Its description then says what applies.
`;

function code(text: string): string {
  return "`" + text + "`";
}

export async function renderCatalogue(): Promise<string> {
  const shipped = await shippedOnes();
  const models = globSync("docs/examples/*/sluice-plugin.json", { cwd: root })
    .toSorted()
    .flatMap((path) => {
      // The test of the model plugins compares these files with the code.
      const { plugins } = JSON.parse(readFileSync(join(root, path), "utf8")) as PluginFile;
      const folder = dirname(path);
      const file = existsSync(join(root, folder, "README.md")) ? "README.md" : "index.ts";
      const link = `${folder.replace("docs/", "")}/${file}`;
      return Object.values(plugins).map((data): Listed => ({ data, link }));
    });
  return [
    heading,
    "## Model plugins\n",
    "You can copy these packages. They are located in docs/examples of the repository and are not part of the npm package.\n",
    ...models.map(sectionOf),
    "## Plugins that ship with Sluice\n",
    ...shipped.map(sectionOf),
  ].join("\n");
}

async function shippedOnes(): Promise<Listed[]> {
  const files = shippedPlugins();
  const { plugins } = await loadShipped();
  return [...plugins.values()]
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map((plugin) => {
      const file = files.get(plugin.name);
      const place = file === undefined ? "" : dirname(file).slice(join(root, "plugins/").length);
      const link = file === undefined ? "../plugins/README.md" : `../plugins/${readmeOf(place)}`;
      return { data: dataOf(plugin), link };
    });
}

function readmeOf(place: string): string {
  const own = globSync(`plugins/${place}/README.md`, { cwd: root });
  return own.length > 0 ? `${place}/README.md` : `${dirname(place)}/README.md`;
}

function sectionOf({ data, link }: Listed): string {
  const { name, kind, description, contract } = data;
  const { services, hosts, env, body, deployment } = grantsOfData(data);
  const list = (values: readonly string[]): string => values.map(code).join(", ");
  const slots = ["provides", "needs", "wants"].flatMap((member) => {
    const found = data[member];
    const names = isObject(found) ? Object.keys(found) : [];
    return names.length === 0 ? [] : [`${member} ${list(names)}`];
  });
  const lines = [
    `kind: ${kind}`,
    ...(slots.length === 0 ? [] : [`slots: ${slots.join("; ")}`]),
    ...(services.length === 0 ? [] : [`services: ${list(services)}`]),
    ...(hosts.length === 0 ? [] : [`servers: ${hosts.includes("*") ? "any" : list(hosts)}`]),
    ...(env.length === 0 ? [] : [`environment variables: ${list(env)}`]),
    ...(deployment.length === 0 ? [] : [`parts of the deployment: ${list(deployment)}`]),
    // Without `permissions`, the manifest says nothing about bodies. Only steps need a permission for them.
    ...(data.permissions === undefined || kind !== "step" ? [] : [`bodies: ${body}`]),
    ...(contract === undefined ? [] : [`contract: ${code(contract)}`]),
  ];
  return [
    `### [${name}](${link})`,
    "",
    description,
    "",
    ...lines.map((line) => `- ${line}`),
    ...optionTable(data.options),
    "",
  ].join("\n");
}
