import { defineStep, refuse, type Reply } from "sluice-gateway/plugin";
import { capabilities, type Anonymous, type Capability } from "sluice-gateway/services";

interface Options {
  readonly require: "key" | Capability;
}

export default defineStep<Options>({
  name: "authorize",
  description: "Requires a valid API key, or a key with a capability.",
  options: {
    type: "object",
    properties: {
      require: {
        description: "`key` for any valid key, or the capability that the key must have.",
        enum: ["key", ...capabilities],
      },
    },
    required: ["require"],
    additionalProperties: false,
  },
  needs: { principal: "requestHeaders" },
  operation: ({ require }) => ({
    access: acceptedCapabilities(require) ?? [],
    refusals: [
      {
        code: "GATEWAY_UNAUTHORIZED",
        description: "The API key is missing or not valid.",
        headers: {
          "WWW-Authenticate": {
            description: "How to present a key.",
            schema: { type: "string", examples: ['Bearer realm="gateway"'] },
          },
        },
      },
      {
        code: "GATEWAY_PERMISSION_DENIED",
        description:
          require === "key"
            ? "The key may not be used from this address."
            : "The key lacks the capability, or it may not be used from this address.",
      },
    ],
  }),
  start({ require }) {
    const denied = {
      ...refuse("GATEWAY_PERMISSION_DENIED", { details: { capability: require } }),
      reason: `capability ${require}`,
    };
    const wrongAddress = {
      ...refuse("GATEWAY_PERMISSION_DENIED", { message: "api key not allowed from this address" }),
      reason: "address",
    };
    const accepted = acceptedCapabilities(require);
    return {
      requestHeaders(x) {
        const principal = x.get("principal");
        if (principal.kind === "anonymous") {
          return principal.reason === "api key not allowed from this address"
            ? wrongAddress
            : unauthorized(principal);
        }
        if (accepted === undefined) return undefined;
        const held = principal.key.capabilities;
        return accepted.some((capability) => held.has(capability)) ? undefined : denied;
      },
    };
  },
});

/** The key needs at least one of them. Undefined if any key is accepted. */
function acceptedCapabilities(require: Options["require"]): readonly Capability[] | undefined {
  if (require === "key") return undefined;
  // Keys with platform:admin may also use the workspace routes (decisions.md section 10). The capability implies no
  // others.
  return require === "workspace:admin" ? ["workspace:admin", "platform:admin"] : [require];
}

/**
 * Returns the 401. It has no `resource_metadata`, because MCP clients would start an OAuth flow instead of using the
 * key (decisions.md section 4).
 */
function unauthorized({ reason, cause }: Anonymous): Reply {
  const refusal = refuse("GATEWAY_UNAUTHORIZED", {
    message: reason,
    headers: ["www-authenticate", 'Bearer realm="gateway"'],
  });
  return cause === undefined ? refusal : { ...refusal, reason: cause };
}
