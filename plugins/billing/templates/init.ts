/** The part of `sluice init` that is about workspaces and keys. */
import type { InitParts } from "sluice-gateway/internal/module";

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
