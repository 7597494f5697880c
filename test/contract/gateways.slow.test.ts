/** Runs the suites of whole gateways on a data folder, on PostgreSQL, and through PgBouncer in transaction mode. */
import { describeBalances } from "./balances.ts";
import { describeCallers } from "./callers.ts";
import { describeDelivery } from "./delivery.ts";
import { embeddedGateways, postgresGateways, type OpenGateways } from "./gateways.ts";
import { describeHistory } from "./history.ts";
import { describeRows } from "./rows.ts";
import { describeSpend } from "./spend.ts";
import { describeWithPgBouncer } from "./through-pgbouncer.ts";

function describeGateways(name: string, open: OpenGateways): void {
  describeRows(name, open);
  describeBalances(name, open);
  describeSpend(name, open);
  describeDelivery(name, open);
  describeCallers(name, open);
  describeHistory(name, open);
}

describeGateways("embedded", embeddedGateways);
describeWithPgBouncer("PostgreSQL", (name, port) => describeGateways(name, postgresGateways(port)));
