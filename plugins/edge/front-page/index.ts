import {
  defineSurface,
  type DocumentedRoute,
  type Operation,
  type Reply,
} from "sluice-gateway/plugin";
import { escapeHtml } from "../escape-html.ts";

interface Options {
  readonly title: string;
  readonly documentation: string;
  readonly openapi: string;
  readonly discovery: string;
}

const path = { type: "string", pattern: "^/[!-~]*$" };

export default defineSurface<Options>({
  name: "front-page",
  description:
    "Serves links to the documentation, the OpenAPI document and the discovery document.",
  options: {
    type: "object",
    properties: {
      title: { description: "Name of the API.", type: "string", minLength: 1, default: "Sluice" },
      documentation: {
        description: "Path of the documentation page.",
        ...path,
        default: "/docs/api",
      },
      openapi: { description: "Path of the OpenAPI document.", ...path, default: "/openapi.json" },
      discovery: {
        description: "Path of the discovery document.",
        ...path,
        default: "/.well-known/mcp",
      },
    },
    additionalProperties: false,
  },
  uses: ["routes"],
  operation: () => operation,
  start(options, host) {
    // The list of routes is complete after all plugins have started, and does not change after that.
    let made: { readonly html: Reply; readonly json: Reply } | undefined;
    const routes = host.use("routes");
    return {
      answer({ request }) {
        made ??= repliesOf(options, routes, host.version);
        return request.headers.accept?.includes("text/html") === true ? made.html : made.json;
      },
    };
  },
});

const shared = ["cache-control", "public, max-age=300", "vary", "accept"];

function repliesOf(
  options: Options,
  routes: readonly DocumentedRoute[],
  version: string,
): { html: Reply; json: Reply } {
  const { title } = options;
  const links = linksOf(options, routes);
  const items = Object.entries(links).map(
    ([name, href]) => `<li><a href="${escapeHtml(href)}">${escapeHtml(name)}</a></li>`,
  );
  const page = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>${escapeHtml(title)}</title></head>
<body><h1>${escapeHtml(title)}</h1><ul>${items.join("")}</ul></body>
</html>
`;
  return {
    html: {
      status: 200,
      headers: [
        "content-type",
        "text/html; charset=utf-8",
        "content-security-policy",
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "x-content-type-options",
        "nosniff",
        ...shared,
      ],
      body: page,
    },
    json: {
      status: 200,
      headers: ["content-type", "application/json", ...shared],
      body: JSON.stringify({ name: title, version, links }),
    },
  };
}

/** Links only to documents that this gateway routes. */
function linksOf(
  { documentation, openapi, discovery }: Options,
  routes: readonly DocumentedRoute[],
): Readonly<Record<string, string>> {
  const routed = new Set(routes.map((route) => route.path));
  const all = { documentation, openapi, discovery };
  return Object.fromEntries(Object.entries(all).filter(([, target]) => routed.has(target)));
}

const text = { type: "string" };

const operation: Operation = {
  summary: "Show links to the documentation",
  answers: {
    200: {
      description: "Paths of the documentation; a page for clients that accept HTML.",
      content: {
        "application/json": {
          type: "object",
          properties: {
            name: text,
            version: text,
            links: {
              type: "object",
              properties: { documentation: text, openapi: text, discovery: text },
              additionalProperties: false,
            },
          },
          required: ["name", "version", "links"],
        },
        "text/html": text,
      },
    },
  },
};
