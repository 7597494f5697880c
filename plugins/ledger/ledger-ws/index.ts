/**
 * Surface `ledger-ws`: the node's JSON-RPC over WebSocket, whitelisted and metered as over HTTP. See decisions.md
 * section 14.
 */
import {
  defineSurface,
  refuse,
  type Exchange,
  type JsonSchema,
  type Reply,
  type Operation,
} from "sluice-gateway/plugin";
import type { Accounts } from "sluice-gateway/services";
import { offeredSubprotocols } from "sluice-gateway/internal/http";
import { upstreamOption } from "../ledger/upstream-option.ts";
import { callerOf } from "./caller.ts";
import { DistinctKeyLimit, KeyLimit } from "./key-limit.ts";
import { messageBytes, Session, type KeyLimits, type SessionDeps } from "./session.ts";

/** The subprotocol that is selected if a client offers any, because browsers require one then. */
const subprotocol = "ledger.v1";

const operation: Operation = {
  summary: "Call the node over WebSocket",
  description:
    "Each message is a JSON-RPC 2.0 call or batch, as over HTTP. Each call that the node answers is charged, and so are subscriptions and their notifications. The caller needs a key with `ledger:read`, or a ticket of such a key.",
  headers: {
    type: "object",
    properties: {
      "sec-websocket-protocol": {
        description: `Optional. A page that has a ticket instead of a key offers ${subprotocol} and ledger.auth.<ticket in base64url>.`,
        type: "string",
        examples: [subprotocol],
      },
    },
  },
  refusals: [
    {
      code: "GATEWAY_PERMISSION_DENIED",
      description: "The key lacks the capability `ledger:read`, or the ticket is for a model.",
    },
    { code: "GATEWAY_RATE_LIMITED", description: "The key has too many open connections." },
  ],
};

interface Options {
  readonly upstream: string;
  readonly connectionsPerKey: number;
  readonly followsPerKey: number;
  readonly operationsPerKey: number;
  readonly archiveReadsPerKey: number;
  readonly subscriptionsPerKey: number;
  readonly submissionsPerKey: number;
  readonly write: boolean;
}

interface SurfaceDeps extends Omit<SessionDeps, "caller" | "charge" | "x" | "wantedProof"> {
  readonly accounts: Accounts;
  readonly connections: KeyLimit;
}

const perKey = (limit: number, things: string): JsonSchema => ({
  description: `Maximum number of ${things} per key.`,
  type: "integer",
  minimum: 1,
  default: limit,
});

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
      connectionsPerKey: perKey(100, "open connections"),
      followsPerKey: perKey(100, "open follows (chainHead_v1_follow)"),
      operationsPerKey: perKey(256, "chainHead_v1 operations that have not ended"),
      archiveReadsPerKey: perKey(8, "archive_v1_storage and archive_v1_storageDiff reads"),
      // An upstream has at most 512 different subscriptions and 256 submissions, so one key gets a quarter.
      subscriptionsPerKey: {
        ...perKey(128, "different subscriptions"),
        description:
          "Maximum number of different subscriptions (chain_subscribeNewHeads and the like) per key. Subscriptions that share one at the node count once.",
      },
      submissionsPerKey: perKey(64, "watched or broadcast extrinsics"),
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
  usesIfInstalled: ["proofs"],
  operation: () => operation,
  start({ upstream, write, ...perKeyLimits }, host) {
    const ledger = host.use("ledger").pool(upstream);
    if (ledger === undefined) throw new Error(`there is no upstream named ${upstream}`);
    const accounts = host.use("accounts");
    const connections = new KeyLimit(perKeyLimits.connectionsPerKey);
    const limits: KeyLimits = {
      follows: new KeyLimit(perKeyLimits.followsPerKey),
      operations: new KeyLimit(perKeyLimits.operationsPerKey),
      archiveReads: new KeyLimit(perKeyLimits.archiveReadsPerKey),
      subscriptions: new DistinctKeyLimit(perKeyLimits.subscriptionsPerKey),
      submissions: new KeyLimit(perKeyLimits.submissionsPerKey),
    };
    const { log, memory } = host;
    const prover = host.use("proofs", { ifInstalled: true })?.prover(upstream);
    const deps: SurfaceDeps = { ledger, accounts, connections, limits, log, memory, write, prover };
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
  { accounts, connections, ...shared }: SurfaceDeps,
): Promise<Reply | undefined> {
  const caller = callerOf(x, accounts);
  if ("status" in caller) return caller;
  const quota = connections.of(caller.keyId);
  if (quota.take() === 0) {
    return refuse("GATEWAY_RATE_LIMITED", { message: "the key has too many open connections" });
  }
  using stack = new DisposableStack();
  stack.defer(() => quota.release());
  const connection = await x.accept({ protocol: selectedProtocol(x), messageBytes });
  const charge = x.get("charge");
  const wantedProof = x.request.headers["x-sluice-proof"]?.toString() ?? offeredProof(x);
  const deps = { ...shared, caller, charge, x, wantedProof };
  await new Session(connection, deps).finished;
  return undefined;
}

/** A server must not select a subprotocol that the client does not offer. */
function selectedProtocol(x: Exchange): string | undefined {
  return offeredBy(x).includes(subprotocol) ? subprotocol : undefined;
}

/** Returns the proof that a page asks for. Browsers cannot send `X-Sluice-Proof` with a handshake. */
function offeredProof(x: Exchange): string | undefined {
  const prefix = "ledger.proof.";
  const offered = offeredBy(x).find((each) => each.startsWith(prefix));
  return offered?.slice(prefix.length);
}

function offeredBy(x: Exchange): readonly string[] {
  return offeredSubprotocols(x.request.headers["sec-websocket-protocol"]) ?? [];
}
