/** What each of the workspace routes takes and answers (decisions.md section 10). */
import {
  violationsSchema,
  type DocumentedRefusal,
  type JsonSchema,
  type Operation,
} from "sluice-gateway/plugin";
import { changes, mostViolations, type ChangeName } from "./changes.ts";
import { defaultChanges, groupMembers, isView, mostChanges, type ViewName } from "./views.ts";

const text = { type: "string" };
const time = { type: "string", format: "date-time" };
const milli = { type: "integer", minimum: 0 };
const plan = { enum: ["free", "developer", "startup", "enterprise"] };

const workspace = {
  type: "object",
  properties: {
    id: { ...text, pattern: "^ws_" },
    name: text,
    plan,
    pending_plan: { description: "The plan from `pending_plan_at` on.", ...plan },
    pending_plan_at: time,
    purchased_cu_milli: { description: "What is left of all purchases.", ...milli },
    overage_limit_cu_milli: milli,
    created_at: time,
  },
  required: ["id", "name", "plan", "purchased_cu_milli", "created_at"],
};

const purchase = {
  type: "object",
  properties: { purchase_id: text, amount_cu_milli: milli, workspace },
  required: ["purchase_id", "amount_cu_milli", "workspace"],
};

const usage = {
  type: "object",
  properties: {
    workspace_id: text,
    from: time,
    to: time,
    used_cu_milli: milli,
    groups: {
      type: "array",
      items: {
        type: "object",
        properties: {
          key: text,
          surface: text,
          method: text,
          model: { type: ["string", "null"] },
          day: { type: "string", format: "date" },
          calls: milli,
          used_cu_milli: milli,
          input_tokens: milli,
          output_tokens: milli,
        },
        required: ["calls", "used_cu_milli", "input_tokens", "output_tokens"],
      },
    },
  },
  required: ["workspace_id", "from", "to", "used_cu_milli", "groups"],
};

const audit = {
  type: "object",
  properties: {
    workspace_id: text,
    changes: {
      type: "array",
      items: {
        type: "object",
        properties: {
          id: { type: "integer" },
          time,
          actor: { description: "A key's id, or `cli:` and a user.", ...text },
          request_id: text,
          workspace_id: text,
          key_id: text,
          action: text,
          details: { description: "What was set, never a secret." },
        },
        required: ["id", "time", "actor", "action", "details"],
      },
    },
    next_after: { description: "There may be more: the next page's `after`.", type: "integer" },
  },
  required: ["workspace_id", "changes"],
};

const instant = {
  description: "Such as 2026-01-31T12:00:00Z, or 2026-01-31.",
  type: "string",
  anyOf: [{ format: "date-time" }, { format: "date" }],
};
const member = groupMembers.join("|");
/** A comma-separated list in which nothing stands twice. */
const members = {
  type: "string",
  pattern: `^(?!.*\\b(\\w+),(.*,)?\\1\\b)((${member})(,(${member}))*)?$`,
};
const wholeNumber = (minimum: number, maximum: number, fallback: number): JsonSchema => {
  return { type: "integer", minimum, maximum, default: fallback };
};

const queries: Partial<Record<ViewName, JsonSchema>> = {
  usage: {
    type: "object",
    properties: {
      from: { ...instant, description: `The first instant that counts. ${instant.description}` },
      to: { ...instant, description: `The first that no longer does. ${instant.description}` },
      group_by: {
        description: `A comma-separated list of ${groupMembers.join(", ")}, each once.`,
        ...members,
      },
    },
  },
  audit: {
    type: "object",
    properties: {
      after: {
        description: "Only changes with a higher id.",
        ...wholeNumber(0, Number.MAX_SAFE_INTEGER, 0),
      },
      limit: { description: "The most to list.", ...wholeNumber(1, mostChanges, defaultChanges) },
    },
  },
};

const about: Readonly<Record<ViewName | ChangeName, { summary: string; answer: JsonSchema }>> = {
  show: { summary: "Show a workspace", answer: workspace },
  usage: { summary: "Report what was charged", answer: usage },
  audit: { summary: "List what was changed", answer: audit },
  upgrade: { summary: "Change to a higher plan, at once", answer: workspace },
  downgrade: { summary: "Change to a lower plan, with the next billing period", answer: workspace },
  "cancel-downgrade": { summary: "Call a pending downgrade off", answer: workspace },
  purchase: { summary: "Buy credit", answer: purchase },
};

const notFound: DocumentedRefusal = {
  code: "GATEWAY_NOT_FOUND",
  description: "There is no such workspace, or it is another's",
};
const unavailable: DocumentedRefusal = {
  code: "GATEWAY_SERVICE_UNAVAILABLE",
  description: "The store cannot serve now",
};
const wrongBody: DocumentedRefusal = {
  code: "GATEWAY_INVALID_PARAMS",
  description: "The body is not JSON, or does not match its schema",
  details: violationsSchema(mostViolations),
};

export function operationOf(wanted: ViewName | ChangeName): Operation {
  const { summary, answer } = about[wanted];
  const common = {
    summary,
    path: { type: "object", properties: { id: { description: "The workspace's id.", ...text } } },
    answers: { 200: { description: "Done", content: { "application/json": answer } } },
  };
  if (isView(wanted)) {
    const query = queries[wanted];
    const wrong = { code: "GATEWAY_INVALID_PARAMS", description: "The query is wrong" } as const;
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
      { code: "GATEWAY_CONFLICT", description: "The workspace is not in a state for it" },
    ],
  };
}
