/** The process of chopsticks.ts: runs the node, sends its url to the parent and ends with it. */
import { readFile } from "node:fs/promises";
import { setupWithServer } from "@acala-network/chopsticks";
import { parse } from "yaml";
import { specsFolder } from "./chopsticks.ts";

const text = (name: string): Promise<string> => readFile(new URL(name, specsFolder), "utf8");
const settings: object = parse(await text("polkadot-coretime.yml"));

process.once("disconnect", () => process.exit(0));
const node = await setupWithServer({
  ...settings,
  port: 0,
  host: "127.0.0.1",
  "chain-spec": JSON.parse(await text("polkadot-coretime.json")),
  // chopsticks does not export the type of its configuration, which this file contains.
} as unknown as Parameters<typeof setupWithServer>[0]);
// Building the first block can fail, which chopsticks only logs. The tests begin at that block.
for (let attempt = 1; node.chain.head.number === 0; attempt++) {
  if (attempt > 3) throw new Error("chopsticks built no block");
  await node.chain.newBlock();
}
process.send?.(`http://${node.addr}`);
