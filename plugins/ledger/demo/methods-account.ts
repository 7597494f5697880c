/** The methods about accounts and their extrinsics. Nothing is ever pending: a recording takes no extrinsics. */
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
