import { defineStep, refuse } from "sluice-gateway/plugin";
import { createCallers, type Options } from "./callers.ts";

const text = { type: "string", minLength: 1 };
const count = { type: "integer", minimum: 1 };
const planNames = ["free", "developer", "startup", "enterprise"];
const claim = (name: string, description: string) => ({ ...text, default: name, description });

export default defineStep<Options>({
  name: "jwt-auth",
  description: "Authenticates callers by OIDC access tokens.",
  options: {
    type: "object",
    properties: {
      issuer: { ...text, pattern: "^[^#]+$", description: "The value of `iss`." },
      audience: { ...text, description: "The value of `aud`." },
      jwks: { ...text, pattern: "^https?://[^/?#]+[^#]*$", description: "Address of the keys." },
      workspaceClaim: claim("org_id", "Claim with the id of the workspace."),
      scopeClaim: claim("scope", "Claim with the capabilities: a text or an array."),
      planClaim: claim("plan", "Claim with a plan, in place of the plan of the workspace."),
      plan: { enum: planNames, description: "Plan of workspaces that the gateway does not know." },
      rpsClaim: claim("rps", "Claim with the requests per second, up to those of the plan."),
      rps: { ...count, description: "Requests per second without the claim." },
      dailyMilliCuClaim: claim("daily_milli_cu", "Claim with the credit in 24 hours."),
      dailyMilliCu: { ...count, description: "Credit in 24 hours without the claim." },
    },
    required: ["issuer", "audience", "jwks"],
    additionalProperties: false,
  },
  provides: { principal: "requestHeaders" },
  uses: ["accounts"],
  permissions: { hosts: ["*"], body: "none" },
  operation: () => ({
    refusals: [{ code: "GATEWAY_SERVICE_UNAVAILABLE", description: "Tokens cannot be checked." }],
  }),
  start(options, host) {
    const accounts = host.use("accounts");
    const callerOf = createCallers(options, host);
    return {
      async requestHeaders(x) {
        const caller = await callerOf(x.request.headers.authorization);
        if (caller.kind === "unavailable") return refuse("GATEWAY_SERVICE_UNAVAILABLE");
        // `authorize` refuses anonymous callers, so that public routes work without a token.
        accounts.setPrincipal(x, caller);
        return undefined;
      },
    };
  },
});
