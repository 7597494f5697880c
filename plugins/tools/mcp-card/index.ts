/** The server card (SEP-2127) describes the MCP endpoint to clients that have no key yet. Cards do not list tools. */
import { defineSurface, type Reply, type RequestHead } from "sluice-gateway/plugin";
import { clientScheme, etagOf, matchesEtag } from "sluice-gateway/internal/http";
import { announcedRevisions } from "../mcp-revisions.ts";

interface Options {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly endpoint: string;
  readonly url?: string;
}

const schema = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json";

const card = {
  type: "object",
  properties: {
    $schema: { const: schema },
    name: { type: "string" },
    title: { type: "string" },
    version: { type: "string" },
    description: { type: "string" },
    remotes: {
      type: "array",
      items: {
        type: "object",
        properties: { type: { const: "streamable-http" }, url: { type: "string" } },
        required: ["type", "url"],
      },
    },
  },
  required: ["$schema", "name", "version", "description", "remotes"],
};

export default defineSurface<Options>({
  name: "mcp-card",
  description:
    "Serves the server card, which describes the MCP endpoint to clients that have no key yet.",
  options: {
    type: "object",
    properties: {
      name: {
        description: "The `name` of the mcp surface.",
        type: "string",
        pattern: "^[A-Za-z0-9.-]+/[A-Za-z0-9._-]+$",
        default: "local.sluice/gateway",
      },
      title: {
        description: "The `title` of the mcp surface.",
        type: "string",
        minLength: 1,
        default: "Sluice",
      },
      description: {
        description: "One sentence of at most 100 characters.",
        type: "string",
        minLength: 1,
        maxLength: 100,
        default: "Tools for a Substrate node and a confidential inference network.",
      },
      endpoint: {
        description: "Path of the mcp surface.",
        type: "string",
        pattern: "^/",
        default: "/mcp",
      },
      url: {
        description:
          "Base URL of this gateway for clients, such as https://gateway.example.com. Default: the host that the request names.",
        type: "string",
        pattern: "^https?://[^/]+$",
      },
    },
    additionalProperties: false,
  },
  operation: () => ({
    summary: "Show the server card of the agent protocol",
    headers: {
      type: "object",
      properties: {
        "if-none-match": {
          description: "ETag of the card that the client has.",
          type: "string",
          examples: ['"Pz8_Pz8_Pz8_Pz8_Pz8_Pw"'],
        },
      },
    },
    answers: {
      200: {
        description: "The server card (SEP-2127).",
        content: { "application/mcp-server-card+json": card },
        headers: {
          ETag: {
            description: "Identifies this version of the card.",
            schema: { type: "string", examples: ['"Pz8_Pz8_Pz8_Pz8_Pz8_Pw"'] },
          },
        },
      },
      304: { description: "The card has not changed since the ETag in If-None-Match." },
    },
  }),
  start(options, host) {
    return {
      answer({ request }) {
        const base = options.url ?? baseOf(request);
        const body = JSON.stringify(cardOf(options, host.version, base));
        return replyWith(body, request.headers["if-none-match"]);
      },
    };
  },
});

function cardOf(options: Options, version: string, base: string): object {
  const { name, title, description, endpoint } = options;
  return {
    $schema: schema,
    name,
    title,
    version,
    description,
    remotes: [
      {
        type: "streamable-http",
        url: `${base}${endpoint}`,
        supportedProtocolVersions: announcedRevisions,
        headers: [
          {
            name: "Authorization",
            value: "Bearer {key}",
            isRequired: true,
            isSecret: true,
            variables: { key: { isRequired: true, isSecret: true } },
          },
        ],
      },
    ],
  };
}

/** A trusted proxy reports the scheme. */
function baseOf(request: RequestHead): string {
  return `${clientScheme(request)}://${request.headers.host ?? "localhost"}`;
}

function replyWith(body: string, ifNoneMatch: string | undefined): Reply {
  const etag = etagOf(body);
  const headers = Object.entries({
    "content-type": "application/mcp-server-card+json",
    "cache-control": "public, max-age=3600",
    etag,
    // The URL in the card depends on the host name of the request.
    vary: "Host",
    "access-control-allow-origin": "*",
  }).flat();
  return matchesEtag(ifNoneMatch, etag) ? { status: 304, headers } : { status: 200, headers, body };
}
