/** The methods for accounts and their extrinsics. No extrinsics are pending, because a recording accepts none. */
import { accountIdOf } from "../ledger/decode/ss58.ts";
import type { Chain } from "./chain.ts";
import { invalidParams } from "./failure.ts";
import type { Method, Methods } from "./method.ts";
import { nonceAt } from "./nonce.ts";
import { readText } from "./params.ts";

export function accountMethods(chain: Chain): Methods {
  const accountNextIndex: Method = {
    params: ["account"],
    run(account) {
      const address = readText(account, "account");
      // Nodes accept an address with any prefix, but not an account id in hex.
      const id = address.startsWith("0x") ? undefined : accountIdOf(address);
      if (id?.length !== 32) throw invalidParams("account: not an SS58 address");
      return nonceAt(chain, Buffer.from(id).toString("hex"), chain.head);
    },
  };
  return {
    system_accountNextIndex: accountNextIndex,
    account_nextIndex: accountNextIndex,
    author_pendingExtrinsics: { params: [], run: () => [] },
  };
}
