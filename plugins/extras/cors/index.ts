/** See https://fetch.spec.whatwg.org/#http-cors-protocol. */
import { defineStep, type Reply } from "sluice-gateway/plugin";

interface Options {
  readonly origins: readonly string[];
  readonly methods: readonly string[];
  readonly headers: readonly string[];
  readonly exposedHeaders: readonly string[];
  readonly credentials: boolean;
  readonly maxAgeSeconds: number;
}

/** Browsers write an origin in lower case and without a path. */
const originSchema = { type: "string", pattern: "^(\\*|[a-z][a-z0-9+.-]*://[^/?#A-Z\\s]+)$" };
const names = { type: "array", items: { type: "string", pattern: "^[\\w!#$%&'*+.^`|~-]+$" } };
const usualMethods = ["GET", "POST", "PUT", "PATCH", "DELETE"];

export default defineStep<Options>({
  name: "cors",
  description: "Lets pages of other origins call the gateway, and answers preflight requests.",
  options: {
    type: "object",
    properties: {
      origins: { type: "array", items: originSchema, minItems: 1, description: 'Origins, or "*".' },
      methods: { ...names, default: usualMethods, description: "Methods that pages may use." },
      headers: {
        ...names,
        default: ["authorization", "content-type"],
        description: "Request headers that pages may send.",
      },
      exposedHeaders: {
        ...names,
        default: [],
        description: "Response headers that pages may read.",
      },
      credentials: { type: "boolean", default: false, description: "Allows cookies." },
      maxAgeSeconds: {
        type: "integer",
        minimum: 0,
        default: 600,
        description: "Time for which browsers may keep the answer to a preflight request.",
      },
    },
    required: ["origins"],
    additionalProperties: false,
  },
  permissions: { body: "none" },
  check: ({ origins, credentials }) =>
    credentials && origins.includes("*")
      ? [{ pointer: "/credentials", message: 'the origin "*" cannot be used with credentials' }]
      : [],
  start({ origins, methods, headers, exposedHeaders, credentials, maxAgeSeconds }) {
    const listed = new Set<unknown>(origins);
    const isOpen = listed.has("*");
    const allowed: Reply = {
      status: 204,
      headers: [
        ["access-control-allow-methods", methods.join(", ")],
        ["access-control-allow-headers", headers.join(", ")],
        ["access-control-max-age", String(maxAgeSeconds)],
      ].flat(),
    };
    return {
      requestHeaders({ request }) {
        const { origin, "access-control-request-method": wanted } = request.headers;
        if (request.method !== "OPTIONS" || !origin || !wanted) return undefined;
        return isOpen || listed.has(origin) ? allowed : { status: 204 };
      },
      responseHeaders({ request }, head) {
        const { origin } = request.headers;
        // An upstream may have set these headers, but the options decide.
        head.remove("access-control-allow-origin");
        head.remove("access-control-allow-credentials");
        // A cache must not give the answer for one origin to a page of another one.
        if (!isOpen) head.add("vary", "Origin");
        if (origin === undefined || !(isOpen || listed.has(origin))) return;
        head.set("access-control-allow-origin", isOpen ? "*" : origin);
        if (credentials) head.set("access-control-allow-credentials", "true");
        if (exposedHeaders.length > 0) {
          head.set("access-control-expose-headers", exposedHeaders.join(", "));
        }
      },
    };
  },
});
