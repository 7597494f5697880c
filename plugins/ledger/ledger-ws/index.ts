/**
 * Surface `ledger-ws`: the node's JSON-RPC over WebSocket, whitelisted and metered as over HTTP (decisions.md section
 * 14). The ledger checks and answers the calls.
 */
import { defineSurface, refuse, type Exchange, type Log, type Reply } from "sluice-gateway/plugin";
import type { Accounts, Ledger } from "sluice-gateway/services";
import { upstreamOption } from "../ledger/upstream-option.ts";
import { callerOf } from "./caller.ts";
import { KeyConnections } from "./key-connections.ts";
import { operation, subprotocol } from "./operation.ts";
import { messageBytes, Session } from "./session.ts";

interface Options {
  readonly upstream: string;
  readonly connectionsPerKey: number;
  readonly write: boolean;
}

interface SurfaceDeps {
  readonly ledger: Ledger;
  readonly accounts: Accounts;
  readonly connections: KeyConnections;
  readonly log: Log;
  readonly write: boolean;
}

export default defineSurface<Options>({
  name: "ledger-ws",
  description:
    "Passes JSON-RPC calls of whitelisted methods to the nodes of an upstream, over WebSocket.",
  websocket: true,
  options: {
    type: "object",
    additionalProperties: false,
    required: ["upstream"],
    properties: {
      upstream: upstreamOption,
      connectionsPerKey: {
        description: "Maximum number of open connections per key.",
        type: "integer",
        minimum: 1,
        default: 100,
      },
      write: {
        description:
          "Also offers the methods that submit extrinsics, to keys with the capability ledger:write.",
        type: "boolean",
        default: false,
      },
    },
  },
  needs: { principal: "answer", charge: "answer" },
  wants: { ticket: "answer" },
  uses: ["accounts", "ledger"],
  operation: () => operation,
  start({ upstream, connectionsPerKey, write }, host) {
    const ledger = host.use("ledger").pool(upstream);
    if (ledger === undefined) throw new Error(`there is no upstream named ${upstream}`);
    const accounts = host.use("accounts");
    const connections = new KeyConnections(connectionsPerKey);
    const deps: SurfaceDeps = { ledger, accounts, connections, log: host.log, write };
    return {
      answer(x) {
        x.note("upstream", upstream);
        return answer(x, deps);
      },
    };
  },
});

async function answer(
  x: Exchange,
  { ledger, accounts, connections, log, write }: SurfaceDeps,
): Promise<Reply | undefined> {
  const caller = callerOf(x, accounts);
  if ("status" in caller) return caller;
  using place = connections.enter(caller.keyId);
  if (place === undefined) {
    return refuse("GATEWAY_RATE_LIMITED", { message: "the key has too many open connections" });
  }
  const connection = await x.accept({ protocol: selectedProtocol(x), messageBytes });
  const charge = x.get("charge");
  await new Session(connection, { ledger, caller, charge, x, log, write }).finished;
  return undefined;
}

/** Returns the subprotocol if the client offers it. A server must not select one that the client does not offer. */
function selectedProtocol(x: Exchange): string | undefined {
  const offered = x.request.headers["sec-websocket-protocol"] ?? "";
  return offered.split(",").some((each) => each.trim() === subprotocol) ? subprotocol : undefined;
}
