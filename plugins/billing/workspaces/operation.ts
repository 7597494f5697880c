/** OpenAPI operations of the workspace routes (decisions.md section 10). */
import {
  violationsSchema,
  type DocumentedRefusal,
  type JsonSchema,
  type Operation,
} from "sluice-gateway/plugin";
import { changes, maxViolations, type ChangeName } from "./changes.ts";
import { defaultChanges, groupMembers, isView, maxChanges, type ViewName } from "./views.ts";

const text = { type: "string" };
const time = { type: "string", format: "date-time" };
const workspaceId = "ws_3f3f3f3f3f3f3f3f";
const milli = { type: "integer", minimum: 0 };
const plan = { enum: ["free", "developer", "startup", "enterprise"] };

const workspace = {
  type: "object",
  properties: {
    id: { ...text, pattern: "^ws_" },
    name: text,
    plan,
    pending_plan: { description: "Plan from `pending_plan_at` on.", ...plan },
    pending_plan_at: time,
    purchased_cu_milli: { description: "Remaining credit of all purchases in milli-CU.", ...milli },
    overage_limit_cu_milli: milli,
    created_at: time,
  },
  required: ["id", "name", "plan", "purchased_cu_milli", "created_at"],
};

const purchase = {
  type: "object",
  properties: {
    purchase_id: { ...text, examples: ["pur_3f3f3f3f3f3f3f3f"] },
    amount_cu_milli: milli,
    workspace,
  },
  required: ["purchase_id", "amount_cu_milli", "workspace"],
};

const usage = {
  examples: [
    {
      workspace_id: workspaceId,
      from: "2026-11-01T00:00:00Z",
      to: "2026-12-01T00:00:00Z",
      used_cu_milli: 1500,
      groups: [
        {
          method: "chain_getBlock",
          calls: 3,
          used_cu_milli: 1500,
          input_tokens: 0,
          output_tokens: 0,
        },
      ],
    },
  ],
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
          cached_tokens: milli,
          reasoning_tokens: milli,
        },
        required: ["calls", "used_cu_milli", "input_tokens", "output_tokens"],
      },
    },
  },
  required: ["workspace_id", "from", "to", "used_cu_milli", "groups"],
};

const audit = {
  examples: [
    {
      workspace_id: workspaceId,
      changes: [
        {
          id: 7,
          time: "2026-11-21T09:30:00Z",
          actor: "key_3f3f3f3f3f3f3f3f",
          request_id: "7c9e6679-7425-40de-944b-e07fc1f90ae7",
          workspace_id: workspaceId,
          action: "workspace.upgrade",
          details: { plan: "startup" },
        },
      ],
    },
  ],
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
          actor: {
            description:
              "Id of a key, `cli:` and a user, or `oidc:` and the subject and e-mail address of a user of an OpenID provider.",
            ...text,
          },
          request_id: text,
          workspace_id: text,
          key_id: text,
          action: text,
          details: { description: "New settings, without secrets." },
        },
        required: ["id", "time", "actor", "action", "details"],
      },
    },
    next_after: {
      description: "`after` of the next page, if there may be more changes.",
      type: "integer",
    },
  },
  required: ["workspace_id", "changes"],
};

const instant = {
  description: "Write it as 2026-01-31T12:00:00Z, or as 2026-01-31.",
  type: "string",
  anyOf: [{ format: "date-time" }, { format: "date" }],
};
const member = groupMembers.join("|");
/** A comma-separated list without duplicates. */
const members = {
  type: "string",
  examples: ["key,day"],
  pattern: `^(?!.*\\b(\\w+),(.*,)?\\1\\b)((${member})(,(${member}))*)?$`,
};
const wholeNumber = (minimum: number, maximum: number, fallback: number): JsonSchema => {
  return { type: "integer", minimum, maximum, default: fallback };
};

const queries: Partial<Record<ViewName, JsonSchema>> = {
  usage: {
    type: "object",
    properties: {
      from: { ...instant, description: `Start of the range, inclusive. ${instant.description}` },
      to: {
        ...instant,
        description: `End of the range, exclusive. ${instant.description}`,
      },
      group_by: {
        description: `Comma-separated list of ${groupMembers.join(", ")}, each at most once.`,
        ...members,
      },
    },
  },
  audit: {
    type: "object",
    properties: {
      after: {
        description: "List only changes with a higher id.",
        ...wholeNumber(0, Number.MAX_SAFE_INTEGER, 0),
      },
      limit: {
        description: "Maximum number of changes to list.",
        ...wholeNumber(1, maxChanges, defaultChanges),
      },
    },
  },
};

const about: Readonly<
  Record<ViewName | ChangeName, { summary: string; done: string; answer: JsonSchema }>
> = {
  show: { summary: "Show a workspace", done: "The workspace as it is now.", answer: workspace },
  usage: {
    summary: "Report the usage of a workspace",
    done: "The charges of the period.",
    answer: usage,
  },
  audit: {
    summary: "List the changes to a workspace",
    done: "The changes, in order of their ids.",
    answer: audit,
  },
  upgrade: {
    summary: "Change to a higher plan immediately",
    done: "The workspace has the new plan.",
    answer: workspace,
  },
  downgrade: {
    summary: "Change to a lower plan at the next billing period",
    done: "The downgrade is pending.",
    answer: workspace,
  },
  "cancel-downgrade": {
    summary: "Cancel a pending downgrade",
    done: "No downgrade is pending.",
    answer: workspace,
  },
  purchase: { summary: "Buy credit", done: "The credit was added.", answer: purchase },
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
  const { summary, done, answer } = about[wanted];
  const common = {
    summary,
    path: { type: "object", properties: { id: { description: "Id of the workspace.", ...text } } },
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
