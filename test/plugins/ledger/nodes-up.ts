import { until } from "./until.ts";

/** A node that has just lost its connections is not used until the next probe: wait before a move to another node. */
export async function untilNodesUp(
  { adminUrl }: { readonly adminUrl: string },
  count: number,
): Promise<void> {
  await until(async () => {
    const text = await (await fetch(`${adminUrl}/metrics`)).text();
    return (text.match(/^sluice_ledger_node_up\{.*\} 1$/gm)?.length ?? 0) === count;
  });
}
