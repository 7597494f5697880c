/**
 * The OpenAPI 3.1 document of all loaded routes, or a page that shows it. The manifests of the plugins (`operation`)
 * document their requests and answers.
 */
import {
  defineSurface,
  type DocumentedRoute,
  type Operation,
  type Reply,
  type RequestHead,
} from "sluice-gateway/plugin";
import { etagOf, matchesEtag } from "sluice-gateway/internal/http";
import { documentOf } from "./document.ts";
import { healthRoutes } from "./health-routes.ts";
import { cacheControl, viewerOf } from "./viewer.ts";

interface Options {
  readonly as: "document" | "page";
  readonly document: string;
  readonly title: string;
  readonly description: string;
  readonly url: string;
}

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
    let answer: ((request: RequestHead) => Reply | Promise<Reply>) | undefined;
    const routes = host.use("routes");
    return {
      answer({ request }) {
        answer ??= answererOf(options, routes, host.version);
        return answer(request);
      },
    };
  },
});

function answererOf(
  { as, document, title, description, url }: Options,
  routes: readonly DocumentedRoute[],
  version: string,
): (request: RequestHead) => Reply | Promise<Reply> {
  const about = { title, description, version, url };
  const body = JSON.stringify(documentOf([...healthRoutes, ...routes], about));
  if (as === "page") return viewerOf({ title, document, url, version }, body);
  const etag = etagOf(body);
  // The document is public, so pages of any origin may read it.
  const shared = ["etag", etag, "cache-control", cacheControl, "access-control-allow-origin", "*"];
  const whole = { status: 200, headers: ["content-type", "application/json", ...shared], body };
  const unchanged = { status: 304, headers: shared };
  return ({ headers }) => (matchesEtag(headers["if-none-match"], etag) ? unchanged : whole);
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

const file = { type: "string", examples: ["…"] };

const pageOperation: Operation = {
  summary: "Show this document as a page",
  query: {
    type: "object",
    properties: {
      asset: {
        description: "Name of a file that the page loads. Missing for the page itself.",
        type: "string",
        examples: ["viewer.css"],
      },
    },
  },
  answers: {
    200: {
      description: "The page, or one of its files.",
      content: {
        "text/html": { type: "string", examples: ["<!doctype html><title>Sluice</title>"] },
        "text/javascript": file,
        "text/css": file,
        "application/json": { type: "object", examples: [{ openapi: "3.1.1" }] },
      },
    },
    304: { description: "The file has not changed since the ETag in If-None-Match." },
  },
  refusals: [{ code: "GATEWAY_NOT_FOUND", description: "The page has no such file." }],
};
