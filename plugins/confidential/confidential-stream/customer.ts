/** Charges the requests of a session to the account of the exchange, even after the client has disconnected. */
import type { CallReporter } from "sluice-gateway/plugin";
import type {
  Accounts,
  Admission,
  ApiKey,
  Charge,
  ChargePart,
  KeyPrincipal,
  StreamCharge,
  StreamCustomer,
} from "sluice-gateway/services";
import { andThen } from "sluice-gateway/internal/toolkit";

interface CustomerDeps {
  readonly principal: KeyPrincipal;
  readonly accounts: Accounts;
  readonly charge: Charge;
  readonly calls: CallReporter;
  readonly address: string;
  /** The only model of the session, if it was opened with a ticket for one. */
  readonly model: string | undefined;
}

export function createCustomer(deps: CustomerDeps): StreamCustomer {
  const { accounts, charge, calls, address, model } = deps;
  const { id: keyId, workspaceId } = deps.principal.key;
  /** The principal at the last request. Its plan, limits and credit can change while the session is open. */
  let { principal } = deps;
  return {
    keyId,
    workspaceId,
    model,
    admitted: () =>
      andThen(accounts.identifyAgain(deps.principal, address), (now): Admission => {
        if (now.kind === "unavailable") return "unavailable";
        if (now.kind === "anonymous" || hasLostRights(now.key, deps.principal.key)) {
          return "refused";
        }
        principal = now;
        return "admitted";
      }),
    failed(code, name) {
      const isListed = name !== undefined;
      calls.called({ kind: "model", name: name ?? "other", isListed, code: failureCode(code) });
    },
    reserve(costMilliCu) {
      const opening = charge.open(costMilliCu, { streamed: true, detached: true, principal });
      return andThen(opening, (part) => {
        if (!("kind" in part)) return streamCharge(part, calls);
        // Without a ticket, the model of the session is not known here.
        const isListed = model !== undefined;
        calls.called({
          kind: "model",
          name: model ?? "other",
          isListed,
          code: refusalCodes[part.kind],
        });
        return part.kind;
      });
    },
  };
}

/** Only the route knows which capability it requires, so a key that has lost any must open a new session. */
function hasLostRights(now: ApiKey, before: ApiKey): boolean {
  return !before.capabilities.isSubsetOf(now.capabilities);
}

const refusalCodes = {
  refused: "GATEWAY_CU_LIMIT_EXCEEDED",
  unavailable: "GATEWAY_SERVICE_UNAVAILABLE",
} as const;

/** Maps codes of the encrypted stream to the codes that logs and metrics use for all surfaces. */
const failureCodes: Readonly<Record<string, string>> = {
  INSUFFICIENT_BALANCE: "GATEWAY_CU_LIMIT_EXCEEDED",
  MODEL_NOT_AVAILABLE: "MODEL_NOT_AVAILABLE",
  RATE_LIMITED: "GATEWAY_RATE_LIMITED",
  UNAUTHORIZED: "GATEWAY_UNAUTHORIZED",
  UPSTREAM_FAILED: "UPSTREAM_ERROR",
};

function failureCode(code: string): string {
  return failureCodes[code] ?? "INVALID_REQUEST";
}

function streamCharge(part: ChargePart, calls: CallReporter): StreamCharge {
  return {
    reservedMilliCu: part.reservedMilliCu,
    async settle(line) {
      part.settle([line]);
      const code = line.outcome === "upstreamFailed" ? "UPSTREAM_ERROR" : undefined;
      calls.called({ kind: "model", name: line.model ?? "other", isListed: true, code });
      return (await part.written()) === undefined;
    },
    release: () => part.release(),
  };
}
