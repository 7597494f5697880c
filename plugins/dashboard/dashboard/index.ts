import { defineService, type JsonSchema } from "sluice-gateway/plugin";
import type { OidcOptions, OidcSection } from "./oidc/user.ts";

/** The section `dashboard` of pipeline.yaml after validation, with defaults. */
interface Options {
  readonly dashboard: { readonly oidc: OidcSection };
}

/** Undefined if no provider is configured. */
function oidcOptions({ dashboard: { oidc } }: Options): OidcOptions | undefined {
  const { issuer, clientId, clientSecret, roles: mapped } = oidc;
  if (issuer === undefined || clientId === undefined) return undefined;
  if (clientSecret === undefined || mapped === undefined) return undefined;
  return { ...oidc, issuer, clientId, clientSecret, roles: mapped };
}

function claim(name: string, description: string): JsonSchema {
  return {
    type: ["string", "array"],
    minLength: 1,
    minItems: 1,
    items: { type: "string", minLength: 1 },
    default: name,
    description,
  };
}

/** The session contains one value, so its length is limited by the size of a cookie. */
function values(description: string): JsonSchema {
  return {
    type: "array",
    minItems: 1,
    uniqueItems: true,
    items: { type: "string", minLength: 1, maxLength: 200 },
    description,
  };
}

export const oidcSchema: JsonSchema = {
  type: "object",
  description: "Sign-in at an OpenID provider, in addition to keys.",
  additionalProperties: false,
  default: {},
  dependentRequired: { issuer: ["clientId", "clientSecret", "roles"] },
  properties: {
    issuer: {
      type: "string",
      format: "https-url",
      description:
        "Issuer of the provider, exactly as its discovery document states it. Without it, users sign in with keys only.",
    },
    clientId: {
      type: "string",
      minLength: 1,
      description: "Id of this client at the provider. Required if `issuer` is set.",
    },
    clientSecret: {
      type: "string",
      minLength: 1,
      description: "Secret of this client at the provider. Required if `issuer` is set.",
    },
    name: {
      type: "string",
      minLength: 1,
      maxLength: 40,
      default: "OpenID",
      description: "Name of the provider on the sign-in page.",
    },
    scopes: {
      type: "array",
      uniqueItems: true,
      items: { type: "string", pattern: "^[!#-\\[\\]-~]+$" },
      default: ["profile", "email"],
      description: "Scopes to request, in addition to `openid`.",
    },
    rolesClaim: claim(
      "groups",
      "Claim with the roles or groups of a user: a text or a list of texts. A list of names selects a nested claim.",
    ),
    roles: {
      type: "object",
      additionalProperties: false,
      minProperties: 1,
      description:
        "Values of `rolesClaim` that give a role of the dashboard. Required if `issuer` is set.",
      properties: {
        admin: values("Values that give access to everything, like `platform:admin`."),
        workspaceAdmin: values(
          "Values that give access to the workspace in `workspaceClaim`, like `workspace:admin`.",
        ),
        viewer: values("Values that allow reading everything and changing nothing."),
      },
    },
    workspaceClaim: claim(
      "workspace",
      "Claim with the id of the workspace of a `workspaceAdmin`. A list of names selects a nested claim.",
    ),
  },
};

const sections: Readonly<Record<string, JsonSchema>> = {
  dashboard: {
    type: "object",
    description: "The operator's dashboard on the admin listener.",
    additionalProperties: false,
    default: {},
    properties: { oidc: oidcSchema },
  },
};

export default defineService<Options, undefined>({
  name: "dashboard",
  description: "The operator's dashboard on the admin listener.",
  runsOnce: true,
  sections,
  uses: ["gateway", "accounts", "metering"],
  permissions: { deployment: ["store", "seal", "claims"] },
  dryRun: () => undefined,
  async start(options, host, context) {
    const { openDashboard } = await import("./start.ts");
    return { service: undefined, admin: openDashboard(oidcOptions(options), host, context) };
  },
});
