/** The advice that `sluice start` prints while there is no workspace, so that no API key is valid. */
import type { FirstSteps } from "sluice-gateway/internal/module";
import { orElse } from "sluice-gateway/internal/toolkit";

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
