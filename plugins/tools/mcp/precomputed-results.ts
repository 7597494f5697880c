import type {
  CatalogueEntry,
  Prompt,
  Resource,
  ResourceTemplate,
  Tools,
} from "sluice-gateway/services";
import { paramHeadersOf, type ParamHeader } from "./param-headers.ts";
import type { ResultFrame } from "./tool-result.ts";
import { announcedRevisions, metaKeys } from "../mcp-revisions.ts";

/** The same in `initialize`, `server/discover` and the server card. */
export interface ServerInfo {
  readonly name: string;
  readonly title: string;
  readonly version: string;
}

/** Results of methods without parameters: members of the result object as JSON text, without braces. */
export interface PrecomputedResults {
  /** If a method is missing, the deployment has nothing to list and does not declare the capability. */
  readonly byMethod: ReadonlyMap<string, string>;
  /** The result without `protocolVersion`. */
  readonly initialize: string;
  readonly discover: string;
  /** `"io.modelcontextprotocol/serverInfo":{…}`. */
  readonly server: string;
  readonly statelessFrame: ResultFrame;
  readonly paramHeaders: ReadonlyMap<string, readonly ParamHeader[]>;
}

export function precomputeResults(
  tools: Tools,
  serverInfo: ServerInfo,
  instructions: string,
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

/**
 * All hints are set explicitly, because the protocol's defaults assume the worst and most tools here only read. A tool
 * that declares that it is not read-only gets the defaults of the protocol.
 */
function toolEntry(entry: CatalogueEntry): object {
  const { name, description, inputSchema, outputSchema, annotations, write } = entry;
  const { estimatedCUMilli, estimatedCUVaries } = entry;
  const { title } = annotations;
  const hints =
    write || annotations.readOnlyHint === false
      ? { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true }
      : { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true };
  return {
    name,
    ...(title !== undefined && { title }),
    description,
    inputSchema,
    outputSchema,
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
