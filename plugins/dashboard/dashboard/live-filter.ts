/** The filters of the latest requests. They are applied by each gateway to the requests that it keeps. */
import type { SettledExchange } from "sluice-gateway/plugin";
import type { AccountsAdmin } from "sluice-gateway/services";

export const filterNames = ["status", "code", "key", "route", "call", "request"] as const;

const maxLength = 100;
const maxKeys = 500;

/** Members that are undefined match every request. Texts are in lower case. */
export interface LiveFilter {
  /** A status, or a digit for all statuses that begin with it. */
  readonly status?: number | undefined;
  /** Part of the code of a refusal. */
  readonly code?: string | undefined;
  readonly keys?: readonly string[] | undefined;
  /** Part of the route's path. */
  readonly route?: string | undefined;
  /** Part of the name of a method, tool or model that the request called. */
  readonly call?: string | undefined;
  /** Beginning of the request's id. */
  readonly request?: string | undefined;
}

type Query = Readonly<Record<string, string | undefined>>;

/** Keys are searched by name and id, at most 500, in the workspace `only` if it is given. Fails with a StoreError. */
export async function readFilter(
  query: Query,
  admin: Pick<AccountsAdmin, "searchKeys">,
  only: string | undefined,
): Promise<{ value: LiveFilter } | { wrong: string }> {
  const long = filterNames.find((name) => (query[name]?.length ?? 0) > maxLength);
  if (long !== undefined) return { wrong: `${long} must have at most ${maxLength} characters` };
  const { status, key, request } = query;
  const statusNumber = readStatus(status);
  if (status !== undefined && statusNumber === undefined) {
    return { wrong: "status must be a number such as 429, or a class such as 4xx" };
  }
  const search = { workspaceId: only, text: key ?? "", activeAt: undefined, limit: maxKeys };
  const found = key === undefined ? undefined : await admin.searchKeys(search);
  return {
    value: {
      status: statusNumber,
      code: query["code"]?.toLowerCase(),
      keys: found?.map((each) => each.key.id),
      route: query["route"]?.toLowerCase(),
      call: query["call"]?.toLowerCase(),
      request: request?.toLowerCase(),
    },
  };
}

function readStatus(text: string | undefined): number | undefined {
  const [, digits, rest] = /^(\d)(xx|\d\d)?$/.exec(text ?? "") ?? [];
  if (digits === undefined) return undefined;
  return rest === undefined || rest === "xx" ? Number(digits) : Number(digits + rest);
}

export function matches(exchange: SettledExchange, filter: LiveFilter): boolean {
  const { status, code, keys, route, call, request } = filter;
  const { facts, calls } = exchange;
  return (
    (status === undefined || statusMatches(exchange.status, status)) &&
    contains(exchange.code, code) &&
    (keys === undefined || (facts.caller !== undefined && keys.includes(facts.caller.id))) &&
    contains(exchange.route.path, route) &&
    (call === undefined || calls?.names.some((name) => contains(name, call)) === true) &&
    (request === undefined || facts.requestId?.toLowerCase().startsWith(request) === true)
  );
}

function statusMatches(status: number, wanted: number): boolean {
  return wanted < 10 ? Math.floor(status / 100) === wanted : status === wanted;
}

function contains(text: string | undefined, part: string | undefined): boolean {
  return part === undefined || text?.toLowerCase().includes(part) === true;
}
