/** Names the metadata of the resource in each 401, so that clients find the provider by themselves (RFC 9728). */
import { defineStep } from "sluice-gateway/plugin";

interface Options {
  readonly resource: string;
}

export default defineStep<Options>({
  name: "resource-challenge",
  description: "Names the metadata of a protected resource in each 401.",
  options: {
    type: "object",
    properties: {
      resource: {
        type: "string",
        pattern: "^https?://[^/?#]+[^#]*$",
        description: "Address of the resource, such as that of /mcp.",
      },
    },
    required: ["resource"],
    additionalProperties: false,
  },
  permissions: { body: "none" },
  start({ resource }) {
    const { origin, pathname, search } = new URL(resource);
    // RFC 9728 section 3.1
    const path = pathname === "/" ? "" : pathname;
    const metadata = `${origin}/.well-known/oauth-protected-resource${path}${search}`;
    return {
      responseHeaders(x, head) {
        if (head.status !== 401) return;
        // RFC 6750 section 3.1: a request without a token has made no error.
        const hasToken = x.request.headers.authorization !== undefined;
        const error = hasToken ? 'error="invalid_token", ' : "";
        head.set("www-authenticate", `Bearer ${error}resource_metadata="${metadata}"`);
      },
    };
  },
});
