import type { FirstSteps, InitParts } from "sluice-gateway/internal/module";
import { orElse } from "sluice-gateway/internal/toolkit";

export const init: InitParts = {
  templates: {
    proxy: {
      summary: "a reverse proxy that requires an API key, limits the rate and charges each request",
      file: "plugins/billing/templates/proxy.yaml",
      hasDemo: false,
    },
  },
  variables: {
    DATABASE_URL:
      "PostgreSQL database for accounts and a copy of every charge, such as postgres://user:password@host/database.",
    REDIS_URL:
      "Redis in which gateways share request rates, such as redis://:password@host:6379. It requires DATABASE_URL.",
  },
  steps: `Then, in a second terminal, create a workspace and an API key:

  npx sluice workspaces create --name acme --plan developer --env-file .env
  npx sluice keys create --workspace ws_… --env-file .env`,
};

export const firstSteps: FirstSteps = async (gateway, commonArguments) => {
  const admin = gateway.use("accounts")?.admin;
  // A store that cannot be read is reported by the accounts themselves.
  const workspaces = await orElse(
    () => admin?.listWorkspaces(1),
    () => undefined,
  );
  if (workspaces?.length !== 0) return undefined;
  return {
    message: "there is no workspace yet, so no API key is valid",
    next: "sluice workspaces create, then sluice keys create",
    text: `There is no workspace yet. Create one with API keys, in a second terminal with the same environment variables:

  npx sluice workspaces create --name acme --plan developer${commonArguments}
  npx sluice keys create --workspace ws_…${commonArguments}
  npx sluice keys create --workspace ws_… --capability platform:admin${commonArguments}     # for the dashboard
`,
  };
};
