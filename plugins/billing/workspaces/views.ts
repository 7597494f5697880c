import { refuse, type Exchange, type Reply } from "sluice-gateway/plugin";
import {
  type UsageMember,
  type Workspaces,
  parseTime,
  type WorkspaceAnswer,
} from "sluice-gateway/services";

export type ViewName = "show" | "usage" | "audit";

type View = (workspaces: Workspaces, id: string, x: Exchange) => Promise<Reply>;

export const groupMembers: readonly UsageMember[] = ["key", "surface", "method", "model", "day"];
export const defaultChanges = 100;
export const maxChanges = 1_000;

export const views: Readonly<Record<ViewName, View>> = {
  show: async (workspaces, id) => replyTo(await workspaces.find(id)),
  usage,
  audit,
};

export function isView(name: string): name is ViewName {
  return Object.hasOwn(views, name);
}

async function usage(workspaces: Workspaces, id: string, x: Exchange): Promise<Reply> {
  const query = queryOf(x.request.query, {
    from: instant,
    to: instant,
    group_by: (text) => words(text, groupMembers),
  });
  if ("wrong" in query) return refuse("GATEWAY_INVALID_PARAMS", { message: query.wrong });
  const { from, to, group_by: groupBy = [] } = query.values;
  const report = await workspaces.usage(id, { from, to, groupBy }, x.signal);
  return replyTo(report, (json) => json);
}

async function audit(workspaces: Workspaces, id: string, x: Exchange): Promise<Reply> {
  const query = queryOf(x.request.query, {
    after: (text) => wholeNumber(text, 0, Number.MAX_SAFE_INTEGER),
    limit: (text) => wholeNumber(text, 1, maxChanges),
  });
  if ("wrong" in query) return refuse("GATEWAY_INVALID_PARAMS", { message: query.wrong });
  const { after = 0, limit = defaultChanges } = query.values;
  return replyTo(await workspaces.changes(id, { after, limit }), (changes) => {
    const last = changes.length === limit ? changes.at(-1) : undefined;
    const more = last === undefined ? {} : { next_after: last.id };
    return JSON.stringify({ workspace_id: id, changes, ...more });
  });
}

/** The value of a parameter, or the rest of the message "must be …". */
export type QueryValue<T> = { readonly value: T } | { readonly mustBe: string };

type Readers = Readonly<Record<string, (text: string) => QueryValue<unknown>>>;
type Values<R extends Readers> = {
  readonly [N in keyof R]?: R[N] extends (text: string) => QueryValue<infer T> ? T : never;
};

export function queryOf<R extends Readers>(
  query: string,
  readers: R,
): { readonly values: Values<R> } | { readonly wrong: string } {
  const values: Record<string, unknown> = {};
  for (const [name, text] of new URLSearchParams(query)) {
    const reader = Object.hasOwn(readers, name) ? readers[name] : undefined;
    if (reader === undefined) {
      return { wrong: `unknown parameter; expected one of ${Object.keys(readers).join(", ")}` };
    }
    if (Object.hasOwn(values, name)) return { wrong: `${name} is given more than once` };
    const read = reader(text);
    if ("mustBe" in read) return { wrong: `${name} must be ${read.mustBe}` };
    values[name] = read.value;
  }
  // Safe cast: `readers` returns the type of each name.
  return { values: values as Values<R> };
}

/** Parses a time to milliseconds since 1970. */
export function instant(text: string): QueryValue<number> {
  const value = parseTime(text);
  const mustBe = "a time such as 2026-01-31T12:00:00Z or 2026-01-31";
  return value === undefined ? { mustBe } : { value };
}

export function wholeNumber(text: string, least: number, most: number): QueryValue<number> {
  const value = /^\d{1,16}$/.test(text) ? Number(text) : NaN;
  const fits = value >= least && value <= most;
  return fits ? { value } : { mustBe: `a whole number from ${least} to ${most}` };
}

/** An empty text is an empty list. */
export function words<T extends string>(
  text: string,
  allowed: readonly T[],
): QueryValue<readonly T[]> {
  const given = text === "" ? [] : text.split(",");
  const value = allowed.filter((word) => given.includes(word));
  if (value.length === given.length) return { value };
  return { mustBe: `a comma-separated list of ${allowed.join(", ")}, each once` };
}

const notFound = refuse("GATEWAY_NOT_FOUND");
const unavailable = refuse("GATEWAY_SERVICE_UNAVAILABLE");

export function replyTo<T>(
  answer: WorkspaceAnswer<T>,
  body: (value: T) => string | Uint8Array = (value) => JSON.stringify(value),
): Reply {
  if (answer.kind === "done") {
    const headers = ["content-type", "application/json"];
    return { status: 200, headers, body: body(answer.value) };
  }
  if (answer.kind === "notFound") return notFound;
  if (answer.kind === "unavailable") return unavailable;
  const code = answer.kind === "conflict" ? "GATEWAY_CONFLICT" : "GATEWAY_INVALID_PARAMS";
  return refuse(code, { message: answer.message });
}
