/** The ledger in PostgreSQL: calls its functions. Every method rejects with DatabaseFailure. */
import type { Postgres } from "sluice-gateway/plugin";
import { storableJson } from "../storable-json.ts";
import type {
  CreditLedger,
  FeedReply,
  LeasedCharge,
  LeaseReply,
  PostRequest,
  Registered,
  Standing,
} from "./ledger.ts";

/** A message without a reply is sent again after this time, so the reply to its statement is no longer needed. */
const statementMs = 2_000;

/**
 * Charges, leases and heartbeats have one connection each, so that they wait neither for each other nor for other
 * statements. `version`: the version of Sluice, for `sluice store status`.
 */
export function createPostgresLedger(database: Postgres, version: string): CreditLedger {
  const connect = (): Call => callsOf(database.separate({ connections: 1, statementMs }));
  const [onPosts, onLeases, onFeeds] = [connect(), connect(), connect()];
  const onAny = callsOf(database);
  return {
    register: (name, mode) =>
      onAny<Registered>("register", "credit_register($1, $2, $3)", name, mode, version),
    feed: (replica) => onFeeds<FeedReply>("feed", "credit_feed($1)", replica),
    lease: ({ replica, leaseNo, wants }) =>
      onLeases<LeaseReply>(
        "lease",
        "credit_lease($1, $2, $3)",
        replica,
        leaseNo,
        JSON.stringify(wants),
      ),
    post: (request) =>
      onPosts<Standing>(
        "post",
        "credit_post($1, $2, $3, $4)",
        request.replica,
        request.first,
        request.last,
        encodeCharges(request),
      ),
    fence: (replica) => onAny<readonly number[]>("fence", "credit_fence($1)", replica),
    leave: (replica) => onAny<Standing>("register", "credit_leave($1)", replica),
  };
}

/** Calls a function of the ledger. `text`: its name and its parameters. */
type Call = <T>(lane: string, text: string, ...values: unknown[]) => Promise<T>;

function callsOf(database: Postgres): Call {
  return async <T>(lane: string, text: string, ...values: unknown[]): Promise<T> => {
    const [row] = await database.query(lane, `SELECT sluice.${text} AS reply`, values);
    // Only the functions of schema.ts write the reply, and a test compares all replies with those of MemoryLedger.
    return row?.["reply"] as T;
  };
}

/** Returns the charges of a batch as a JSON array for `credit_post`. */
export function encodeCharges({ first, charges }: Pick<PostRequest, "first" | "charges">): string {
  return `[${charges.map((charge, place) => storableJson(rowOf(charge, first + place))).join(",")}]`;
}

function rowOf(charge: LeasedCharge, seq: number): object {
  const [included = 0, purchased = 0, overage = 0] = charge.splitMilliCu;
  return {
    time: new Date(charge.time).toISOString(),
    seq,
    workspace_id: charge.workspaceId,
    key_id: charge.keyId,
    ...charge.details,
    included_cu_milli: included,
    purchased_cu_milli: purchased,
    overage_cu_milli: overage,
    taken: charge.takenMilliCu,
    key_taken: charge.keyTakenMilliCu,
  };
}
