import { createHash, timingSafeEqual } from "node:crypto";
import { defineStep, refuse } from "sluice-gateway/plugin";
import { isLoopback } from "sluice-gateway/internal/http";

interface Options {
  readonly key?: string;
  readonly open: boolean;
}

const badHost = refuse("GATEWAY_PERMISSION_DENIED", {
  message: "the host is not allowed here: use a loopback name such as 127.0.0.1 or localhost",
});
const badOrigin = refuse("GATEWAY_PERMISSION_DENIED", {
  message: "the origin is not allowed here",
});
const badKey = refuse("GATEWAY_UNAUTHORIZED", { message: "missing or wrong local key" });

export default defineStep<Options>({
  name: "local-access",
  description: "Admits programs of this machine with a local key, and no pages of other origins.",
  options: {
    type: "object",
    properties: {
      key: {
        description:
          "Key that requests must have, in Authorization (Bearer) or X-Api-Key. Without it, only an open route admits requests.",
        type: "string",
        minLength: 16,
        maxLength: 256,
      },
      open: { description: "Admits requests without a key.", type: "boolean", default: false },
    },
    additionalProperties: false,
  },
  permissions: { body: "none" },
  operation: ({ open }) => ({
    refusals: [
      { code: "GATEWAY_PERMISSION_DENIED", description: "The host or the origin is foreign." },
      ...(open
        ? []
        : [
            {
              code: "GATEWAY_UNAUTHORIZED",
              description: "The local key is missing or wrong.",
            } as const,
          ]),
    ],
  }),
  start({ key, open }) {
    const expected = key === undefined ? undefined : digest(key);
    return {
      requestHeaders({ request }) {
        const { host = "", origin, authorization, "x-api-key": apiKey } = request.headers;
        const own = URL.parse(`http://${host}`);
        // A page of a foreign name that resolves to this address (DNS rebinding) has that name in `Host`.
        if (own === null || !isLoopback(own.hostname)) return badHost;
        if (origin !== undefined && URL.parse(origin)?.host !== own.host) return badOrigin;
        if (open) return undefined;
        const given = /^Bearer (.+)$/i.exec(authorization ?? "")?.[1]?.trimStart() ?? apiKey;
        if (expected === undefined || typeof given !== "string") return badKey;
        return timingSafeEqual(digest(given), expected) ? undefined : badKey;
      },
    };
  },
});

/** Digests have one length, as `timingSafeEqual` requires. */
function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
