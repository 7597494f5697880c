/** Runs the suites that judge whole gateways, by services, HTTP and commands alone, on both stores. */
import { describeBalances } from "./balances.ts";
import { describeCallers } from "./callers.ts";
import { describeDelivery } from "./delivery.ts";
import { embeddedGateways, postgresGateways } from "./gateways.ts";
import { describeHistory } from "./history.ts";
import { describeRows } from "./rows.ts";
import { describeSpend } from "./spend.ts";

for (const [name, open] of [
  ["embedded", embeddedGateways],
  ["PostgreSQL", postgresGateways],
] as const) {
  describeRows(name, open);
  describeBalances(name, open);
  describeSpend(name, open);
  describeDelivery(name, open);
  describeCallers(name, open);
  describeHistory(name, open);
}
