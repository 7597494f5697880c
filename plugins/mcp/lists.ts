/** What never changes while a generation lives, as JSON text made once at start. */
import type { CatalogueEntry, Resource, Tools } from "sluice-gateway/plugin";
import { announcedRevisions, metaKeys } from "./revisions.ts";

/** Who this server says it is; the same in `initialize`, `server/discover` and the server card. */
export interface ServerInfo {
  readonly name: string;
  readonly title: string;
  readonly version: string;
}

/** The results of methods without a question, without their frame: members of an object, without its braces. */
export interface Lists {
  readonly tools: string;
  readonly resources: string;
  readonly resourceTemplates: string;
  /** `initialize` without `protocolVersion`. */
  readonly initialize: string;
  readonly discover: string;
  /** `"io.modelcontextprotocol/serverInfo":{…}`. */
  readonly server: string;
}

export function createLists(
  tools: Tools,
  serverInfo: ServerInfo,
  instructions: string | undefined,
): Lists {
  const capabilities = {
    tools: {},
    ...(tools.resources.length > 0 && { resources: {} }),
  };
  return {
    tools: members({ tools: tools.list.map(toolEntry) }),
    resources: members({ resources: tools.resources.map(resourceEntry) }),
    resourceTemplates: members({ resourceTemplates: [] }),
    initialize: members({ capabilities, serverInfo, instructions }),
    discover: members({ supportedVersions: announcedRevisions, capabilities, instructions }),
    server: members({ [metaKeys.server]: serverInfo }),
  };
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
