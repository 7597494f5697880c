/** The account of `sluice dev`. */
import { systemClock, type Demo } from "sluice-gateway/module";
import { openDemoAccount } from "./account.ts";

export const demo: Demo = {
  help: { text: 'Creates the workspace "demo" with an API key, which the example requests use.' },

  createKey(gateway) {
    const accounts = gateway.use("accounts");
    if (accounts === undefined) throw new Error("the service `accounts` does not run");
    return openDemoAccount(accounts.admin, systemClock.now());
  },

  describe({ key }) {
    if (key === undefined) return { position: 4, lines: [], json: {} };
    const { group, text, expiresAt } = key;
    const until = new Date(expiresAt).toISOString();
    return {
      position: 4,
      lines: [["key", `${text} (valid until ${until.slice(0, 10)})`]],
      json: { workspace_id: group, key: text, key_expires_at: until },
    };
  },
};
