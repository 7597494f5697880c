/** The advice that `sluice start` prints while there is no workspace, so that no API key is valid. */
import type { FirstSteps } from "sluice-gateway/module";
import { openAccountsDatabase } from "../accounts/schema.ts";
import { listWorkspaces } from "../accounts/workspaces.ts";

export const firstSteps: FirstSteps = (dataFolder, commonArguments) => {
  using db = openAccountsDatabase(dataFolder);
  if (listWorkspaces(db, 1).length > 0) return undefined;
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
