/** The methods for accounts and their extrinsics. No extrinsics are pending, because a recording accepts none. */
import { accountIdOf } from "./account-id.ts";
import type { Chain } from "./chain.ts";
import { invalidParams } from "./failure.ts";
import type { Method, Methods } from "./method.ts";
import { nonceAt } from "./nonce.ts";
import { readText } from "./params.ts";

export function accountMethods(chain: Chain): Methods {
  const accountNextIndex: Method = {
    params: ["account"],
    run(account) {
      const accountId = accountIdOf(readText(account, "account"));
      if (accountId === undefined) throw invalidParams("account: not an SS58 address");
      return nonceAt(chain, accountId, chain.head);
    },
  };
  return {
    system_accountNextIndex: accountNextIndex,
    account_nextIndex: accountNextIndex,
    author_pendingExtrinsics: { params: [], run: () => [] },
  };
}
