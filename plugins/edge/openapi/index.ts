/**
 * Surface `openapi`: the OpenAPI 3.1 document of all loaded routes, or a page that shows it. It is built from the
 * manifests of the plugins (`operation`), which document what they accept and answer.
 */
import {
  defineSurface,
  type DocumentedRoute,
  type Operation,
  type Reply,
} from "sluice-gateway/plugin";
import { etagOf, matchesEtag } from "sluice-gateway/http";
import { documentOf } from "./document.ts";
import { healthRoutes } from "./health-routes.ts";
import { pageOf } from "./page.ts";
import { styleSource } from "./style.ts";

interface Options {
  readonly as: "document" | "page";
  readonly document: string;
  readonly title: string;
  readonly description: string;
  readonly url: string;
}

/** Routes change only with a reload. Readers may see the old document for up to five minutes. */
const cacheControl = "public, max-age=300";

const contentOf = {
  document: {
    type: "application/json",
    // The document is public, so pages of any origin may read it.
    headers: ["access-control-allow-origin", "*"],
  },
  page: {
    type: "text/html; charset=utf-8",
    headers: [
      "content-security-policy",
      `default-src 'none'; style-src ${styleSource}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
      "x-content-type-options",
      "nosniff",
      "referrer-policy",
      "no-referrer",
    ],
  },
} as const;

export default defineSurface<Options>({
  name: "openapi",
  description: "Describes all routes, as an OpenAPI 3.1 document or as a page that shows it.",
  options: {
    type: "object",
    properties: {
      as: {
        description: "`document` for programs, or `page` for people.",
        enum: ["document", "page"],
        default: "document",
      },
      document: {
        description: "Path of the document, to which the page links.",
        type: "string",
        pattern: "^/",
        default: "/openapi.json",
      },
      title: { description: "Name of the API.", type: "string", minLength: 1, default: "Sluice" },
      description: {
        description: "Purpose of the API.",
        type: "string",
        minLength: 1,
        default:
          "A gateway to a Substrate node and a confidential inference network, metered in credit units.",
      },
      url: {
        description:
          "Base URL of this gateway for clients, such as https://gateway.example.com, or / for the host of the document.",
        type: "string",
        pattern: "^(/|https?://[^/]+)",
        default: "/",
      },
    },
    additionalProperties: false,
  },
  uses: ["routes"],
  operation: ({ as }) => (as === "page" ? pageOperation : documentOperation),
  start(options, host) {
    // The list of routes is complete after all routes are loaded, and does not change after that.
    let made:
      | { readonly whole: Reply; readonly unchanged: Reply; readonly etag: string }
      | undefined;
    const routes = host.use("routes");
    return {
      answer({ request }) {
        made ??= repliesOf(options, routes, host.version);
        return matchesEtag(request.headers["if-none-match"], made.etag)
          ? made.unchanged
          : made.whole;
      },
    };
  },
});

function repliesOf(
  { as, document: source, title, description, url }: Options,
  routes: readonly DocumentedRoute[],
  version: string,
): { whole: Reply; unchanged: Reply; etag: string } {
  const document = documentOf([...healthRoutes, ...routes], { title, description, version, url });
  const body = as === "page" ? pageOf(document, source) : JSON.stringify(document);
  const etag = etagOf(body);
  const { type, headers } = contentOf[as];
  const shared = ["etag", etag, "cache-control", cacheControl, ...headers];
  return {
    whole: { status: 200, headers: ["content-type", type, ...shared], body },
    unchanged: { status: 304, headers: shared },
    etag,
  };
}

const documentOperation: Operation = {
  summary: "Show this document",
  answers: {
    200: {
      description: "This document, in OpenAPI 3.1.",
      content: {
        "application/json": {
          type: "object",
          properties: {
            openapi: { type: "string", pattern: "^3\\.1\\." },
            info: { type: "object" },
            paths: { type: "object" },
          },
          required: ["openapi", "info", "paths"],
          examples: [{ openapi: "3.1.1", info: { title: "Sluice", version: "0.1.0" }, paths: {} }],
        },
      },
    },
    304: { description: "The document has not changed since the ETag in If-None-Match." },
  },
};

const pageOperation: Operation = {
  summary: "Show this document as a page",
  answers: {
    200: {
      description: "The document as an HTML page.",
      content: {
        "text/html": { type: "string", examples: ["<!doctype html><title>Sluice</title>"] },
      },
    },
    304: { description: "The document has not changed since the ETag in If-None-Match." },
  },
};
