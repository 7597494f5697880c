/**
 * Announces that the gateway listens. Standard output has only JSON lines, for log collectors. If standard error is a
 * terminal, the same facts are printed there as text.
 */
import { shownPath } from "../config/fault.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { shippedModules } from "../pipeline/load/modules.ts";
import { version } from "../base/version.ts";
import type { CommandContext } from "./command.ts";

export async function announce(context: CommandContext, gateway: Gateway): Promise<void> {
  const { url, adminUrl, log, config } = gateway;
  if (context.json) context.print(JSON.stringify({ url, admin_url: adminUrl }));
  log.info({ url, adminUrl, version, config: config.file }, "the gateway is listening");
  const { firstSteps } = await shippedModules();
  const found = await Promise.all(
    firstSteps.map(async (load) => (await load())(gateway, repeated(context))),
  );
  const steps = found.filter((step) => step !== undefined);
  for (const { message, next } of steps) log.warn({ next }, message);
  if (context.isTerminal !== true || context.json) return;
  context.printToStderr(addresses(gateway));
  for (const { text } of steps) context.printToStderr(text);
}

function addresses({ url, adminUrl, config }: Gateway): string {
  return `
Sluice ${version} is listening.

  clients     ${url}
  dashboard   ${adminUrl}/dashboard (sign in with a key that has platform:admin)
  health      ${adminUrl}/readyz
  config      ${shownPath(config.file, process.cwd())}, data in ${dataPlace(config)}
`;
}

function dataPlace({ store }: Gateway["config"]): string {
  return store.postgres === undefined ? shownPath(store.data, process.cwd()) : "PostgreSQL";
}

/** Returns the common arguments of the command, for commands that are proposed to the user. */
function repeated({ commonArguments = [] }: CommandContext): string {
  return commonArguments.map((argument) => ` ${quoted(argument)}`).join("");
}

/** Quotes an argument for a POSIX shell. */
function quoted(argument: string): string {
  return /^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`;
}
