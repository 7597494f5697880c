/** The advice that `sluice start` prints while there is no workspace, so that no API key is valid. */
import { systemClock, type FirstSteps } from "sluice-gateway/module";
import { openAccountStore } from "../accounts/embedded/embedded-account-store.ts";

export const firstSteps: FirstSteps = async (dataFolder, commonArguments) => {
  const store = openAccountStore(dataFolder, systemClock);
  try {
    if ((await store.listWorkspaces(1)).length > 0) return undefined;
  } finally {
    await store.close();
  }
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
