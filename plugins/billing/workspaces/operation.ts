/** OpenAPI operations of the workspace routes (decisions.md section 10). */
import {
  violationsSchema,
  type DocumentedRefusal,
  type JsonSchema,
  type Operation,
} from "sluice-gateway/plugin";
import { anyPlan, changes, maxViolations, type ChangeName } from "./changes.ts";
import { defaultChanges, groupMembers, isView, maxChanges, type ViewName } from "./views.ts";

type Properties = Readonly<Record<string, JsonSchema>>;

const object = (properties: Properties, required: readonly string[] = []): JsonSchema => {
  return { type: "object", properties, ...(required.length > 0 && { required }) };
};
const array = (items: JsonSchema): JsonSchema => ({ type: "array", items });
const about = (description: string, schema: JsonSchema = {}): JsonSchema => {
  return { description, ...schema };
};
const wholeNumber = (minimum: number, maximum: number, fallback: number): JsonSchema => {
  return { type: "integer", minimum, maximum, default: fallback };
};

const text = { type: "string" };
const time = { type: "string", format: "date-time" };
const workspaceId = "ws_3f3f3f3f3f3f3f3f";
const milli = { type: "integer", minimum: 0 };

const workspace = object(
  {
    id: { ...text, pattern: "^ws_" },
    name: text,
    plan: anyPlan,
    pending_plan: about("Plan from `pending_plan_at` on.", anyPlan),
    pending_plan_at: time,
    purchased_cu_milli: about("Remaining credit of all purchases in milli-CU.", milli),
    overage_limit_cu_milli: milli,
    created_at: time,
  },
  ["id", "name", "plan", "purchased_cu_milli", "created_at"],
);

const purchaseId = { ...text, examples: ["pur_3f3f3f3f3f3f3f3f"] };
const purchase = object({ purchase_id: purchaseId, amount_cu_milli: milli, workspace }, [
  "purchase_id",
  "amount_cu_milli",
  "workspace",
]);

const tokens = { input_tokens: milli, output_tokens: milli };
const names = { key: text, surface: text, method: text, model: { type: ["string", "null"] } };
const day = { type: "string", format: "date" };
const sums = { calls: milli, used_cu_milli: milli, ...tokens };
const group = object(
  { ...names, day, ...sums, cached_tokens: milli, reasoning_tokens: milli },
  Object.keys(sums),
);
const groupExample = { calls: 3, used_cu_milli: 1500, input_tokens: 0, output_tokens: 0 };
const range = { from: "2026-11-01T00:00:00Z", to: "2026-12-01T00:00:00Z", used_cu_milli: 1500 };
const usage = {
  examples: [
    {
      workspace_id: workspaceId,
      ...range,
      groups: [{ method: "chain_getBlock", ...groupExample }],
    },
  ],
  ...object(
    { workspace_id: text, from: time, to: time, used_cu_milli: milli, groups: array(group) },
    ["workspace_id", "from", "to", "used_cu_milli", "groups"],
  ),
};

const change = object(
  {
    id: { type: "integer" },
    time,
    actor: about(
      "Id of a key, `cli:` and a user, or `oidc:` and the subject and e-mail address of a user of an OpenID provider.",
      text,
    ),
    request_id: text,
    workspace_id: text,
    key_id: text,
    action: text,
    details: about("New settings, without secrets."),
  },
  ["id", "time", "actor", "action", "details"],
);
const changeExample = {
  id: 7,
  time: "2026-11-21T09:30:00Z",
  actor: "key_3f3f3f3f3f3f3f3f",
  request_id: "7c9e6679-7425-40de-944b-e07fc1f90ae7",
  workspace_id: workspaceId,
  action: "workspace.upgrade",
  details: { plan: "startup" },
};
const nextAfter = { type: "integer" };
const audit = {
  examples: [{ workspace_id: workspaceId, changes: [changeExample] }],
  ...object(
    {
      workspace_id: text,
      changes: array(change),
      next_after: about("`after` of the next page, if there may be more changes.", nextAfter),
    },
    ["workspace_id", "changes"],
  ),
};

const instant = (bound: string): JsonSchema => ({
  description: `${bound} Write it as 2026-01-31T12:00:00Z, or as 2026-01-31.`,
  type: "string",
  anyOf: [{ format: "date-time" }, { format: "date" }],
});
const member = groupMembers.join("|");
/** A comma-separated list without duplicates. */
const members = {
  type: "string",
  examples: ["key,day"],
  pattern: `^(?!.*\\b(\\w+),(.*,)?\\1\\b)((${member})(,(${member}))*)?$`,
};

const queries: Partial<Record<ViewName, JsonSchema>> = {
  usage: object({
    from: instant("Start of the range, inclusive."),
    to: instant("End of the range, exclusive."),
    group_by: about(
      `Comma-separated list of ${groupMembers.join(", ")}, each at most once.`,
      members,
    ),
  }),
  audit: object({
    after: about("List only changes with a higher id.", wholeNumber(0, Number.MAX_SAFE_INTEGER, 0)),
    limit: about("Maximum number of changes to list.", wholeNumber(1, maxChanges, defaultChanges)),
  }),
};

const routes: Readonly<
  Record<ViewName | ChangeName, readonly [summary: string, done: string, answer: JsonSchema]>
> = {
  show: ["Show a workspace", "The workspace as it is now.", workspace],
  usage: ["Report the usage of a workspace", "The charges of the period.", usage],
  audit: ["List the changes to a workspace", "The changes, in order of their ids.", audit],
  upgrade: ["Change to a higher plan immediately", "The workspace has the new plan.", workspace],
  downgrade: [
    "Change to a lower plan at the next billing period",
    "The downgrade is pending.",
    workspace,
  ],
  "cancel-downgrade": ["Cancel a pending downgrade", "No downgrade is pending.", workspace],
  purchase: ["Buy credit", "The credit was added.", purchase],
};

const notFound: DocumentedRefusal = {
  code: "GATEWAY_NOT_FOUND",
  description: "The workspace does not exist, or the key may not access it.",
};
const unavailable: DocumentedRefusal = {
  code: "GATEWAY_SERVICE_UNAVAILABLE",
  description: "The store is not available at the moment.",
};
const wrongBody: DocumentedRefusal = {
  code: "GATEWAY_INVALID_PARAMS",
  description: "The body is not JSON, or it does not match its schema.",
  details: violationsSchema(maxViolations),
};

export function operationOf(wanted: ViewName | ChangeName): Operation {
  const [summary, done, answer] = routes[wanted];
  const common = {
    summary,
    path: object({ id: about("Id of the workspace.", text) }),
    answers: { 200: { description: done, content: { "application/json": answer } } },
  };
  if (isView(wanted)) {
    const query = queries[wanted];
    const wrong = {
      code: "GATEWAY_INVALID_PARAMS",
      description: "The query is not valid.",
    } as const;
    return {
      ...common,
      ...(query && { query }),
      refusals: [notFound, unavailable, ...(query === undefined ? [] : [wrong])],
    };
  }
  const { schema, takesNothing } = changes[wanted];
  return {
    ...common,
    body: { content: { "application/json": schema }, required: !takesNothing },
    refusals: [
      notFound,
      unavailable,
      wrongBody,
      {
        code: "GATEWAY_CONFLICT",
        description: "The state of the workspace does not allow this change.",
      },
    ],
  };
}
