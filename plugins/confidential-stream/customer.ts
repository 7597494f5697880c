/** Who a session is served to: what its requests cost goes to the exchange's account, also after the client has left. */
import type {
  Accounts,
  ApiKey,
  Charge,
  ChargePart,
  KeyPrincipal,
  StreamCharge,
  StreamCustomer,
} from "sluice-gateway/plugin";

interface CustomerParts {
  readonly principal: KeyPrincipal;
  readonly accounts: Accounts;
  readonly charge: Charge;
  readonly address: string;
  /** Bound by a ticket. */
  readonly model: string | undefined;
}

export function createCustomer(parts: CustomerParts): StreamCustomer {
  const { accounts, charge, address, model } = parts;
  const { id: keyId, workspaceId } = parts.principal.key;
  /** As of its last request: a session outlives plans, limits and what was bought. */
  let { principal } = parts;
  return {
    keyId,
    workspaceId,
    model,
    admitted() {
      const now = accounts.identifyKey(keyId, address);
      if (now.kind === "anonymous" || hasLostRights(now.key, parts.principal.key)) return false;
      principal = now;
      return true;
    },
    reserve(costMilli) {
      const part = charge.open(costMilli, { streamed: true, detached: true, principal });
      return "kind" in part ? part.kind : streamCharge(part);
    },
  };
}

/** Which of its capabilities the route asked for is the route's to know: a key that has lost one has to ask again. */
function hasLostRights(now: ApiKey, before: ApiKey): boolean {
  return !before.capabilities.isSubsetOf(now.capabilities);
}

function streamCharge(part: ChargePart): StreamCharge {
  return {
    reservedMilli: part.reservedMilli,
    async settle(line) {
      part.settle([line]);
      return (await part.written()) === undefined;
    },
    release: () => part.release(),
  };
}
