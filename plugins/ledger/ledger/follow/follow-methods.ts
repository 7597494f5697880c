/** The group `chainHead_v1`. Source: the JSON-RPC interface specification; prices: decisions.md section 14. */
import type { FollowMethod, FollowMethods } from "sluice-gateway/services";
import type { PoolConfig } from "../options.ts";
import { withPrices } from "../priced-methods.ts";

const followMethod = {
  name: "chainHead_v1_follow",
  notification: "chainHead_v1_followEvent",
  openMilliCu: 1000,
  notificationMilliCu: 100,
};

/** Prices in milli-CU. They are those of the comparable reads; storage is priced per item. */
const prices = {
  chainHead_v1_header: 200,
  chainHead_v1_body: 1000,
  chainHead_v1_storage: 500,
  chainHead_v1_call: 5000,
} as const;

export const followNames: readonly string[] = [
  ...Object.keys(prices),
  "chainHead_v1_continue",
  followMethod.name,
  "chainHead_v1_stopOperation",
  "chainHead_v1_unfollow",
  "chainHead_v1_unpin",
].toSorted();

export function isFollowMethod(name: string): boolean {
  return followNames.includes(name);
}

/** Undefined if the option `methods` removes the group. */
export function createFollowMethods({
  methods,
}: Pick<PoolConfig, "methods">): FollowMethods | undefined {
  const follow = withPrices(followMethod, methods);
  if (follow === undefined) return undefined;
  const priced = (name: keyof typeof prices): FollowMethod => {
    const own = methods[name];
    return { name, cuMilli: (own === false ? undefined : own?.cuMilli) ?? prices[name] };
  };
  return {
    follow,
    header: priced("chainHead_v1_header"),
    body: priced("chainHead_v1_body"),
    storage: priced("chainHead_v1_storage"),
    call: priced("chainHead_v1_call"),
  };
}
