/** The caller of a tool in tests: a key, an account that records charges, and a signal. */
import type { Capability, Charge, ToolCaller } from "sluice-gateway/services";
import { keyPrincipal } from "../../fakes.ts";

export interface TestCaller extends ToolCaller {
  /** The settled charges, as `method costMilliCu`. */
  readonly charged: readonly string[];
  /** Parts that are neither settled nor released. */
  readonly open: () => number;
}

export interface WantedCaller {
  readonly keyId?: string;
  readonly capabilities?: readonly Capability[];
  readonly confirmationToken?: string;
  readonly signal?: AbortSignal;
}

export function toolCaller(wanted: WantedCaller = {}): TestCaller {
  const { keyId = "key_1", capabilities = ["ledger:read", "ledger:write"], signal } = wanted;
  const charged: string[] = [];
  let open = 0;
  const charge: Charge = {
    reserve: () => undefined,
    settle() {},
    usedMilliCu: undefined,
    open(reservedMilliCu) {
      open++;
      return {
        reservedMilliCu,
        written: () => Promise.resolve(undefined),
        settle(lines) {
          open--;
          for (const { method, costMilliCu } of lines) charged.push(`${method} ${costMilliCu}`);
        },
        release: () => void open--,
      };
    },
  };
  return {
    principal: keyPrincipal({ id: keyId, capabilities }),
    requestId: "request-1",
    charge,
    signal: signal ?? new AbortController().signal,
    confirmationToken: wanted.confirmationToken,
    charged,
    open: () => open,
  };
}
