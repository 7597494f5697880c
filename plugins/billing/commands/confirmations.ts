/** Waits until the running gateways have applied a change that a command has made. */
import { setTimeout as wait } from "node:timers/promises";
import type { CommandContext } from "sluice-gateway/internal/module";
import type { AccountStore, Follower } from "../accounts/account-store.ts";

const maxWaitMs = 2_000;
const askEveryMs = 50;
/** A gateway that has been silent for this time has ended, or refuses every key because it cannot read the database. */
const endedAfterMs = 10_000;

/** Names of gateways. */
export interface Confirmations {
  readonly confirmed_by: readonly string[];
  readonly not_confirmed_by: readonly string[];
}

/**
 * Waits up to 2 s for all gateways to apply the changes that are committed, and prints which have not. Returns undefined
 * if gateways do not report it.
 */
export async function waitForGateways(
  context: CommandContext,
  store: AccountStore,
): Promise<Confirmations | undefined> {
  const end = performance.now() + maxWaitMs;
  let target: number | undefined;
  for (;;) {
    const found = await store.followers();
    if (found === undefined) return undefined;
    target ??= found.newestChange;
    const running = found.followers.filter(({ silentMs }) => silentMs < endedAfterMs);
    const [late, confirmed] = [namesOf(running, target, false), namesOf(running, target, true)];
    if (late.length > 0 && performance.now() < end) {
      await wait(askEveryMs);
      continue;
    }
    if (late.length > 0) {
      const names = late.join(", ");
      context.printToStderr(
        `Not confirmed within 2 s by: ${names}. A gateway that cannot read the database refuses every key after 5 s.`,
      );
    }
    return { confirmed_by: confirmed, not_confirmed_by: late };
  }
}

function namesOf(followers: readonly Follower[], change: number, hasSeen: boolean): string[] {
  return followers
    .filter(({ seenChange }) => seenChange >= change === hasSeen)
    .map(({ name }) => name);
}
