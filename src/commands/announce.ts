/**
 * Announces that the gateway listens. Standard output has only JSON lines, for log collectors. If standard error is a
 * terminal, the same facts are printed there as text.
 */
import { openAccountsDatabase } from "../../plugins/billing/accounts/schema.ts";
import { listWorkspaces } from "../../plugins/billing/accounts/workspaces.ts";
import { shownPath } from "../config/fault.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { version } from "../version.ts";
import type { CommandContext } from "./command.ts";

export function announce(context: CommandContext, gateway: Gateway): void {
  const { url, adminUrl, log, config } = gateway;
  if (context.json) context.print(JSON.stringify({ url, admin_url: adminUrl }));
  log.info({ url, adminUrl, version, config: config.file }, "the gateway is listening");
  const isNew = !hasWorkspaces(config.store.data);
  if (isNew) {
    log.warn(
      { next: "sluice workspaces create, then sluice keys create" },
      "there is no workspace yet, so no API key is valid",
    );
  }
  if (context.isTerminal !== true || context.json) return;
  context.complain(addresses(gateway));
  if (isNew) context.complain(firstSteps(context));
}

function hasWorkspaces(dataDir: string): boolean {
  using db = openAccountsDatabase(dataDir);
  return listWorkspaces(db, 1).length > 0;
}

function addresses({ url, adminUrl, config }: Gateway): string {
  return `
Sluice ${version} is listening.

  clients     ${url}
  dashboard   ${adminUrl}/dashboard (sign in with a key that has platform:admin)
  health      ${adminUrl}/readyz
  config      ${shownPath(config.file, process.cwd())}, data in ${shownPath(config.store.data, process.cwd())}
`;
}

function firstSteps({ commonArguments = [] }: CommandContext): string {
  const more = commonArguments.map((argument) => ` ${quoted(argument)}`).join("");
  return `There is no workspace yet. Create one with API keys, in a second terminal with the same environment variables:

  npx sluice workspaces create --name acme --plan developer${more}
  npx sluice keys create --workspace ws_…${more}
  npx sluice keys create --workspace ws_… --capability platform:admin${more}     # for the dashboard
`;
}

/** Quotes an argument for a POSIX shell. */
function quoted(argument: string): string {
  return /^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`;
}
