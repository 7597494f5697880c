/** Answers with the metadata of a protected resource (RFC 9728), from which clients learn where they get a token. */
import { defineSurface, type Reply } from "sluice-gateway/plugin";

interface Options {
  readonly resource: string;
  readonly issuer: string;
  readonly scopes?: readonly string[];
}

const text = { type: "string", minLength: 1 };
const texts = { type: "array", items: text, minItems: 1 };
const url = { ...text, pattern: "^https?://[^/?#]+[^#]*$" };

const document = {
  type: "object",
  properties: {
    resource: text,
    authorization_servers: texts,
    bearer_methods_supported: texts,
    scopes_supported: texts,
  },
  required: ["resource", "authorization_servers"],
};

export default defineSurface<Options>({
  name: "resource-metadata",
  description: "Serves the metadata of a protected resource.",
  options: {
    type: "object",
    properties: {
      resource: { ...url, description: "Address of the resource, such as that of /mcp." },
      issuer: { ...url, description: "The provider that issues the tokens." },
      scopes: { ...texts, description: "Scopes that clients can request." },
    },
    required: ["resource", "issuer"],
    additionalProperties: false,
  },
  operation: () => ({
    summary: "Show the metadata of the protected resource",
    answers: {
      200: {
        description: "The metadata (RFC 9728).",
        content: { "application/json": document },
      },
    },
  }),
  start({ resource, issuer, scopes }) {
    const body = JSON.stringify({
      resource,
      authorization_servers: [issuer],
      bearer_methods_supported: ["header"],
      scopes_supported: scopes,
    });
    const headers = [
      ["content-type", "application/json"],
      ["cache-control", "public, max-age=300"],
      // Clients that run in a page read it, too.
      ["access-control-allow-origin", "*"],
    ].flat();
    const reply: Reply = { status: 200, headers, body };
    return { answer: () => reply };
  },
});
