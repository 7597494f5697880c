/** Names the metadata of the resource in each 401, so that clients find the provider by themselves (RFC 9728). */
import { defineStep } from "sluice-gateway/plugin";
import { bearerChallenge } from "sluice-gateway/services";

interface Options {
  readonly resource: string;
}

export default defineStep<Options>({
  name: "resource-challenge",
  contract: "^1.2",
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
    const url = new URL(resource);
    return {
      responseHeaders(x, head) {
        if (head.status !== 401) return;
        head.set("www-authenticate", bearerChallenge(url, x.request.headers.authorization));
      },
    };
  },
});
