/** Converts the results of commits of the journal to replies. All exchanges of one `meter` step share one object. */
import { refuse, type Exchange, type Host, type Reply } from "sluice-gateway/plugin";
import { unavailable } from "./reserve.ts";
import type { CountShadowRefusal } from "./shadow-refusals.ts";

export interface CommitReplies {
  /**
   * Resolves when the result of `commit` is known: to undefined, or to the reply that is sent instead of the answer.
   */
  replyAfter(commit: Promise<void>, x: Exchange): Promise<Reply | undefined>;
  /** Returns true if the charges of this commit are known to have failed and will never be on disk. */
  isLost(commit: Promise<void>): boolean;
}

export function createCommitReplies(
  { log, mode }: Host,
  countShadowRefusal: CountShadowRefusal,
): CommitReplies {
  /** Commits that could not be written. */
  const lost = new WeakSet<Promise<void>>();
  let lastCommit: Promise<void> | undefined;
  let lastReply: Promise<Reply | undefined> | undefined;

  const replyToFailure = (error: unknown, x: Exchange): Reply | undefined => {
    if (error instanceof RangeError) {
      // An invalid charge is a bug of the surface.
      const { path, surface } = x.route;
      log.error({ err: error, route: path, surface }, "a charge cannot be made");
      return refuse("GATEWAY_INTERNAL_ERROR");
    }
    if (mode === "enforce") return unavailable;
    countShadowRefusal("unavailable", x);
    return undefined;
  };

  return {
    replyAfter(commit, x) {
      // The charges of one fsync share one promise, so they also share its reply.
      if (commit !== lastCommit || lastReply === undefined) {
        lastCommit = commit;
        lastReply = commit.then(
          () => undefined,
          (error: unknown) => {
            lost.add(commit);
            return replyToFailure(error, x);
          },
        );
      }
      return lastReply;
    },
    isLost: (commit) => lost.has(commit),
  };
}
