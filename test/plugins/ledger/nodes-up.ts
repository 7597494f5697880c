import { until } from "./until.ts";

/**
 * Waits until the gateway uses this number of nodes. A node that has just lost its connections is not used until the next
 * probe, so a test that makes the gateway move to another node must wait first.
 */
export async function untilNodesUp(
  { adminUrl }: { readonly adminUrl: string },
  count: number,
): Promise<void> {
  await until(async () => {
    const text = await (await fetch(`${adminUrl}/metrics`)).text();
    return (text.match(/^sluice_ledger_node_up\{.*\} 1$/gm)?.length ?? 0) === count;
  });
}
