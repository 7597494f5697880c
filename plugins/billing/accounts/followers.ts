/** Reads which changes the gateways on the same PostgreSQL have applied. */
import type { RunSql } from "sluice-gateway/plugin";
import { gatewayMarks } from "sluice-gateway/store";
import type { Followers } from "./account-store.ts";
import { newestChange } from "./change-feed.ts";

/** The mark of a gateway that is the number of the last change that it has applied. */
export const followerMark = "accounts";

export async function readFollowers(query: RunSql): Promise<Followers> {
  const followers = (await gatewayMarks(query, followerMark)).map(({ name, mark, silentMs }) => ({
    name,
    seenChange: mark,
    silentMs,
  }));
  return { newestChange: await newestChange(query), followers };
}
