/** What never changes while a generation lives, made once at start: most of it as JSON text. */
import type {
  CatalogueEntry,
  Prompt,
  Resource,
  ResourceTemplate,
  Tools,
} from "sluice-gateway/plugin";
import { paramHeadersOf, type ParamHeader } from "./param-headers.ts";
import type { ResultFrame } from "./tool-result.ts";
import { announcedRevisions, metaKeys } from "./revisions.ts";

/** Who this server says it is; the same in `initialize`, `server/discover` and the server card. */
export interface ServerInfo {
  readonly name: string;
  readonly title: string;
  readonly version: string;
}

/** The results of methods without a question, without their frame: members of an object, without its braces. */
export interface PrecomputedResults {
  /** By method. Absent: the deployment has nothing of the kind, and declares no capability for it. */
  readonly byMethod: ReadonlyMap<string, string>;
  /** `initialize` without `protocolVersion`. */
  readonly initialize: string;
  readonly discover: string;
  /** `"io.modelcontextprotocol/serverInfo":{…}`. */
  readonly server: string;
  /** Around the results of stateless calls. */
  readonly statelessFrame: ResultFrame;
  /** Arguments that headers repeat, by tool. */
  readonly paramHeaders: ReadonlyMap<string, readonly ParamHeader[]>;
}

export function precomputeResults(
  tools: Tools,
  serverInfo: ServerInfo,
  instructions: string | undefined,
): PrecomputedResults {
  const capabilities = {
    tools: {},
    logging: {},
    ...(hasResources(tools) && { resources: {} }),
    ...(hasPrompts(tools) && { prompts: {}, completions: {} }),
  };
  const byMethod = new Map([["tools/list", members({ tools: tools.list.map(toolEntry) })]]);
  if (hasResources(tools)) {
    const resourceTemplates = tools.resourceTemplates.map(templateEntry);
    byMethod.set("resources/list", members({ resources: tools.resources.map(resourceEntry) }));
    byMethod.set("resources/templates/list", members({ resourceTemplates }));
  }
  if (hasPrompts(tools)) {
    byMethod.set("prompts/list", members({ prompts: tools.prompts.map(promptEntry) }));
  }
  const server = members({ [metaKeys.server]: serverInfo });
  return {
    byMethod,
    initialize: members({ capabilities, serverInfo, instructions }),
    discover: members({ supportedVersions: announcedRevisions, capabilities, instructions }),
    server,
    paramHeaders: paramHeadersOf(tools.list),
    statelessFrame: { head: `{"resultType":"complete",`, end: `,${server}}}`, rich: true },
  };
}

export function hasResources({ resources, resourceTemplates }: Tools): boolean {
  return resources.length > 0 || resourceTemplates.length > 0;
}

export function hasPrompts({ prompts }: Tools): boolean {
  return prompts.length > 0;
}

function members(value: object): string {
  return JSON.stringify(value).slice(1, -1);
}

/** Every hint is written out: the protocol's defaults are the careful ones, and most tools here only read. */
function toolEntry(entry: CatalogueEntry): object {
  const { name, description, inputSchema, annotations, write } = entry;
  const { estimatedCUMilli, estimatedCUVaries } = entry;
  const { title } = annotations;
  const hints = write
    ? { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true }
    : { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true };
  return {
    name,
    ...(title !== undefined && { title }),
    description,
    inputSchema,
    annotations: { ...hints, ...annotations },
    _meta: { estimatedCUMilli, estimatedCUVaries },
  };
}

function resourceEntry({ uri, name, title, description, mimeType, bytes }: Resource): object {
  return { uri, name, title, description, mimeType, size: bytes };
}

function templateEntry(template: ResourceTemplate): object {
  const { uriTemplate, name, title, description, mimeType } = template;
  return { uriTemplate, name, title, description, mimeType };
}

function promptEntry({ name, title, description, arguments: given = [] }: Prompt): object {
  const taken = given.map((one) => ({
    name: one.name,
    description: one.description,
    required: one.required === true,
  }));
  return { name, title, description, arguments: taken };
}
