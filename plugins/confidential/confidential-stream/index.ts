/**
 * Surface `confidential-stream`: the encrypted inference stream over WebSocket. Frames pass as they come; what they hold
 * is between the client and an enclave. Each request of a session is reserved and charged on its own.
 */
import {
  defineSurface,
  refuse,
  type Accounts,
  type Charge,
  type EvidenceSource,
  type Exchange,
  type KeyPrincipal,
  type Principal,
  type Reply,
  type Stream,
  type TicketTerms,
} from "sluice-gateway/plugin";
import { createCustomer } from "./customer.ts";

declare module "sluice-gateway/plugin" {
  interface Slots {
    principal: Principal;
    charge: Charge;
    ticket: TicketTerms;
  }
}

interface Options {
  readonly origins?: readonly string[];
  readonly sessionsPerKey?: number;
  readonly maxUnfinishedBytes?: number;
  readonly maxUnfinishedBytesPerKey?: number;
  /** Without a kind, which an environment variable may leave out, it is not there. */
  readonly evidence?: { readonly kind?: EvidenceSource };
}

/** confidential-stream.md section 1.1. */
const subprotocol = "confidential.v1";
const mebibyte = 1_048_576;
const messageBytes = mebibyte;

export default defineSurface<Options>({
  name: "confidential-stream",
  description: "Serves the encrypted inference stream: from the client to an enclave, metered.",
  websocket: true,
  options: {
    type: "object",
    properties: {
      origins: {
        description:
          "Origins of the pages whose browsers may connect, such as https://app.example (none).",
        type: "array",
        items: { type: "string", pattern: "^https?://[^/]+$" },
      },
      sessionsPerKey: {
        description: "Sessions that a key may have open at once (1000).",
        type: "integer",
        minimum: 1,
      },
      maxUnfinishedBytes: {
        description:
          "Memory for all requests that this gateway decrypts itself and that have not arrived completely (268435456).",
        type: "integer",
        minimum: 65_536,
      },
      maxUnfinishedBytesPerKey: {
        description: "The same for the requests of one key (33554432).",
        type: "integer",
        minimum: 65_536,
      },
      evidence: {
        description:
          "Who attests this gateway, for networks whose workers have no enclave: then it ends the encryption itself.",
        type: "object",
        properties: { kind: { enum: ["auto", "tdx", "sev-snp", "dstack", "simulated"] } },
        additionalProperties: false,
      },
    },
    additionalProperties: false,
  },
  needs: { principal: "answer", charge: "answer" },
  wants: { ticket: "answer" },
  operation: () => ({
    summary: "Open the encrypted inference stream",
    description: `WebSocket with the subprotocol ${subprotocol}. Frames are encrypted between the client and an enclave. Each request is charged on its own.`,
    headers: {
      type: "object",
      properties: {
        "sec-websocket-protocol": {
          description: `${subprotocol}, and a ticket if the client is a page, which cannot send a key.`,
          type: "string",
          examples: [subprotocol],
          pattern: `(^|,)\\s*${subprotocol.replace(".", "\\.")}\\s*(,|$)`,
        },
      },
      required: ["sec-websocket-protocol"],
    },
    refusals: [
      { code: "GATEWAY_INVALID_PARAMS", description: "The subprotocol is missing." },
      { code: "GATEWAY_PERMISSION_DENIED", description: "Pages of this Origin may not connect." },
      { code: "GATEWAY_RATE_LIMITED", description: "The key has too many open sessions." },
    ],
  }),
  async start(options, { confidential, accounts }) {
    const { origins = [], sessionsPerKey = 1000, evidence } = options;
    const stream = confidential.stream({
      evidence: evidence?.kind,
      sessionsPerKey,
      unfinished: {
        maxBytes: options.maxUnfinishedBytes ?? 256 * mebibyte,
        maxBytesPerOwner: options.maxUnfinishedBytesPerKey ?? 32 * mebibyte,
      },
    });
    await stream.ready;
    const allowed = new Set(origins);
    return {
      answer: (x) => answer(x, stream, accounts, allowed),
      stop: () => stream.close(),
    };
  },
});

async function answer(
  x: Exchange,
  stream: Stream,
  accounts: Accounts,
  origins: ReadonlySet<string>,
): Promise<Reply | undefined> {
  const principal = x.get("principal");
  if (principal.kind === "anonymous") return refuse("GATEWAY_UNAUTHORIZED");
  const refusal = refuseOrigin(x, origins) ?? refuseProtocol(x);
  if (refusal !== undefined) return refusal;
  const customer = customerOf(x, principal, accounts);
  using place = stream.admit(customer.keyId);
  if (place === undefined) {
    return refuse("GATEWAY_RATE_LIMITED", { message: "the key has too many sessions open" });
  }
  const connection = await x.accept({ protocol: subprotocol, messageBytes });
  await stream.serve(connection, customer);
  return undefined;
}

function customerOf(
  x: Exchange,
  principal: KeyPrincipal,
  accounts: Accounts,
): ReturnType<typeof createCustomer> {
  return createCustomer({
    principal,
    accounts,
    charge: x.get("charge"),
    calls: x,
    address: x.request.address,
    model: x.peek("ticket")?.model,
  });
}

/** Every browser says where its page is from, and nothing else has to. */
function refuseOrigin(x: Exchange, origins: ReadonlySet<string>): Reply | undefined {
  const { origin } = x.request.headers;
  if (origin === undefined || origins.has(origin)) return undefined;
  return refuse("GATEWAY_PERMISSION_DENIED", { message: "this origin may not connect" });
}

function refuseProtocol(x: Exchange): Reply | undefined {
  const offered = x.request.headers["sec-websocket-protocol"] ?? "";
  const isOffered = offered.split(",").some((each) => each.trim() === subprotocol);
  if (isOffered) return undefined;
  return refuse("GATEWAY_INVALID_PARAMS", { message: `the subprotocol ${subprotocol} is needed` });
}
