/** Converts the results of commits of the journal to replies. All exchanges of one `meter` step share one object. */
import { refuse, type Exchange, type Host, type Reply } from "sluice-gateway/plugin";
import { unavailable, type CountShadowRefusal } from "./reserve.ts";

export interface CommitReplies {
  /** Resolves when `commit` has ended: to undefined, or to the reply that is sent instead of the answer. */
  replyAfter(commit: Promise<void>, x: Exchange): Promise<Reply | undefined>;
  /** Returns true if the charges of this commit are known to have failed and will never be on disk. */
  isLost(commit: Promise<void>): boolean;
}

interface LastCommit {
  readonly commit: Promise<void>;
  readonly reply: Promise<Reply | undefined>;
  /** The exchanges that wait for it. Undefined if it has been written. */
  waiting: Exchange[] | undefined;
}

export function createCommitReplies(
  host: Host,
  countShadowRefusal: CountShadowRefusal,
): CommitReplies {
  const { log, mode } = host;
  const meter = host.use("metering");
  const lost = new WeakSet<Promise<void>>();
  let last: LastCommit | undefined;

  const replyToFailure = (
    error: unknown,
    x: Exchange,
    all: readonly Exchange[],
  ): Reply | undefined => {
    if (error instanceof RangeError) {
      // An invalid charge is a bug of the surface.
      const { path, surface } = x.route;
      log.error({ err: error, route: path, surface }, "a charge cannot be made");
      return refuse("GATEWAY_INTERNAL_ERROR");
    }
    const place = meter.outageMs === undefined ? "the journal" : "PostgreSQL or the journal";
    for (const each of all) each.note("store", `the charge could not be written to ${place}`);
    if (mode === "enforce") return unavailable;
    countShadowRefusal("unavailable", x);
    return undefined;
  };

  const start = (commit: Promise<void>, x: Exchange): LastCommit => {
    const waiting: Exchange[] = [];
    const reply = commit.then(
      () => {
        // With `durability: async`, all charges share one promise, which is never replaced.
        started.waiting = undefined;
        return undefined;
      },
      (error: unknown) => {
        lost.add(commit);
        return replyToFailure(error, x, waiting);
      },
    );
    const started: LastCommit = { commit, reply, waiting };
    return started;
  };

  return {
    replyAfter(commit, x) {
      // The charges of one fsync share one promise, so they also share its reply.
      if (last?.commit !== commit) last = start(commit, x);
      last.waiting?.push(x);
      return last.reply;
    },
    isLost: (commit) => lost.has(commit),
  };
}
