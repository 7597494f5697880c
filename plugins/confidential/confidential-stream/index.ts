/**
 * Surface `confidential-stream`: the encrypted inference stream over WebSocket. Frames are forwarded unchanged; only
 * the client and an enclave can read them. Credit is reserved and charged per request.
 */
import { defineSurface, refuse, type Exchange, type Reply } from "sluice-gateway/plugin";
import type { Accounts, EvidenceSource, KeyPrincipal, Stream } from "sluice-gateway/services";
import { createCustomer } from "./customer.ts";

interface Options {
  readonly origins: readonly string[];
  readonly sessionsPerKey: number;
  readonly maxUnfinishedBytes: number;
  readonly maxUnfinishedBytesPerKey: number;
  /** Without `kind`, which can come from an unset environment variable, the option has no effect. */
  readonly evidence?: { readonly kind?: EvidenceSource };
}

/** confidential-stream.md section 1.1. */
const subprotocol = "confidential.v1";
const mebibyte = 1_048_576;
const messageBytes = mebibyte;

export default defineSurface<Options>({
  name: "confidential-stream",
  description: "Serves the encrypted inference stream between clients and enclaves, and meters it.",
  websocket: true,
  options: {
    type: "object",
    properties: {
      origins: {
        description:
          "Origins of the pages whose browsers may connect, such as https://app.example.",
        type: "array",
        items: { type: "string", pattern: "^https?://[^/]+$" },
        default: [],
      },
      sessionsPerKey: {
        description: "Maximum number of open sessions per key.",
        type: "integer",
        minimum: 1,
        default: 1000,
      },
      maxUnfinishedBytes: {
        description:
          "Maximum memory in bytes for all requests that this gateway decrypts itself, until the model answers.",
        type: "integer",
        minimum: 65_536,
        default: 256 * mebibyte,
      },
      maxUnfinishedBytesPerKey: {
        description: "The same limit per key.",
        type: "integer",
        minimum: 65_536,
        default: 32 * mebibyte,
      },
      evidence: {
        description:
          "Source of the attestation of this gateway. Required for networks whose workers have no enclave: the gateway then terminates the encryption itself.",
        type: "object",
        properties: { kind: { enum: ["auto", "tdx", "sev-snp", "dstack", "simulated"] } },
        additionalProperties: false,
      },
    },
    additionalProperties: false,
  },
  needs: { principal: "answer", charge: "answer" },
  wants: { ticket: "answer" },
  uses: ["accounts", "confidential-relay"],
  operation: () => ({
    summary: "Open the encrypted inference stream",
    description: `WebSocket with the subprotocol ${subprotocol}. Frames are encrypted between the client and an enclave. Each request is charged separately.`,
    headers: {
      type: "object",
      properties: {
        "sec-websocket-protocol": {
          description: `The subprotocol \`${subprotocol}\`. A web page also sends a ticket, because it cannot send a key in a header.`,
          type: "string",
          examples: [subprotocol],
          pattern: `(^|,)\\s*${subprotocol.replace(".", "\\.")}\\s*(,|$)`,
        },
      },
      required: ["sec-websocket-protocol"],
    },
    refusals: [
      { code: "GATEWAY_INVALID_PARAMS", description: "The subprotocol is missing." },
      { code: "GATEWAY_PERMISSION_DENIED", description: "Pages of this origin may not connect." },
      { code: "GATEWAY_RATE_LIMITED", description: "The key has too many open sessions." },
    ],
  }),
  async start(options, host) {
    const accounts = host.use("accounts");
    const { origins, sessionsPerKey, evidence } = options;
    const stream = host.use("confidential-relay").stream({
      evidence: evidence?.kind,
      sessionsPerKey,
      unfinished: {
        maxBytes: options.maxUnfinishedBytes,
        maxBytesPerOwner: options.maxUnfinishedBytesPerKey,
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
    return refuse("GATEWAY_RATE_LIMITED", { message: "the key has too many open sessions" });
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

/** Browsers always send `Origin`, and other clients do not have to. */
function refuseOrigin(x: Exchange, origins: ReadonlySet<string>): Reply | undefined {
  const { origin } = x.request.headers;
  if (origin === undefined || origins.has(origin)) return undefined;
  return refuse("GATEWAY_PERMISSION_DENIED", { message: "this origin may not connect" });
}

function refuseProtocol(x: Exchange): Reply | undefined {
  const offered = x.request.headers["sec-websocket-protocol"] ?? "";
  const isOffered = offered.split(",").some((each) => each.trim() === subprotocol);
  if (isOffered) return undefined;
  return refuse("GATEWAY_INVALID_PARAMS", {
    message: `the subprotocol ${subprotocol} is required`,
  });
}
