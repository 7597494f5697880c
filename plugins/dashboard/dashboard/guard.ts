/** Restricts the origins that may make changes, and the content that a browser may load and frame. */
import type { FastifyInstance, FastifyRequest } from "fastify";
import { sendRefusal } from "./answer.ts";

/**
 * Allows no inline script or style, no resources of other origins and no framing. Text never becomes markup
 * (`trusted-types`), so the name of a key remains text. Forms are never submitted, because a key must not become part
 * of a URL.
 */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const headers: readonly (readonly [string, string])[] = [
  ["content-security-policy", policy],
  ["x-frame-options", "DENY"],
  ["x-content-type-options", "nosniff"],
  ["referrer-policy", "no-referrer"],
  ["cross-origin-opener-policy", "same-origin"],
  ["cross-origin-resource-policy", "same-origin"],
  ["permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"],
  ["cache-control", "no-store"],
];

/** Adds the headers above and the request id to every answer under /dashboard, including errors. */
export function protectAnswers(scope: FastifyInstance): void {
  scope.addHook("onRequest", (request, reply, done) => {
    for (const [name, value] of headers) void reply.header(name, value);
    void reply.header("x-request-id", request.id);
    done();
  });
}

/** A header that only the dashboard's own script can send. Forms and images of other pages cannot. */
const csrfHeader = "x-sluice-dashboard";

/**
 * Refuses requests of other sites. It is a hook of the routes of the API, because a check of the path would miss
 * percent-encoded letters.
 */
export function refuseOtherSites(api: FastifyInstance): void {
  api.addHook("onRequest", (request, reply, done) => {
    const message = crossSiteProblem(request);
    if (message === undefined) done();
    else sendRefusal(reply, "GATEWAY_PERMISSION_DENIED", { message });
  });
}

/** Undefined if the request comes from the dashboard's page. */
function crossSiteProblem(request: FastifyRequest): string | undefined {
  const { [csrfHeader]: own, "sec-fetch-site": site, origin, host } = request.headers;
  if (own !== "1") return `the header ${csrfHeader} is missing`;
  if (site !== undefined && site !== "same-origin") return "the request comes from another site";
  const reads = request.method === "GET" || request.method === "HEAD";
  if (origin === undefined) return reads ? undefined : "the header origin is missing";
  const matches = origin === `http://${host}` || origin === `https://${host}`;
  return matches ? undefined : "the request comes from another origin";
}
