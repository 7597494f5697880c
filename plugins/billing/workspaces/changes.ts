/** The changes that can be made to a workspace, each with the JSON Schema of its body. */
import {
  schemaCompiler,
  type SchemaError,
  type Validator,
} from "sluice-gateway/internal/json-schema";
import { refuse, type Exchange, type JsonSchema, type Reply } from "sluice-gateway/plugin";
import type { ChangedBy, PlanName, Workspaces } from "sluice-gateway/services";
import { replyTo } from "./views.ts";

export type ChangeName = "upgrade" | "downgrade" | "cancel-downgrade" | "purchase";

export interface Change {
  /** JSON Schema of the body. */
  readonly schema: JsonSchema;
  /** True if the body must be `{}` or missing. */
  readonly takesNothing: boolean;
  run(workspaces: Workspaces, id: string, x: Exchange, by: ChangedBy): Promise<Reply>;
}

/** Maximum number of violations in a response, because a small body must not cause a large response. */
export const maxViolations = 20;

const compile = schemaCompiler("workspace change", { allErrors: true });

interface WithPlan {
  readonly plan: PlanName;
}

interface WithAmount {
  readonly amount_cu_milli: number;
}

const planSchema = {
  type: "object",
  properties: { plan: { enum: ["free", "developer", "startup", "enterprise"] } },
  required: ["plan"],
  additionalProperties: false,
};
const amountSchema = {
  type: "object",
  properties: {
    amount_cu_milli: { type: "integer", minimum: 1, maximum: Number.MAX_SAFE_INTEGER },
  },
  required: ["amount_cu_milli"],
  additionalProperties: false,
};
const emptySchema = { type: "object", additionalProperties: false };
const isPlan = compile<WithPlan>(planSchema);
const isAmount = compile<WithAmount>(amountSchema);
const isNothing = compile<object>(emptySchema);

export const changes: Readonly<Record<ChangeName, Change>> = {
  upgrade: change(planSchema, isPlan, async (workspaces, id, body, by) =>
    replyTo(await workspaces.upgrade(id, body.plan, by)),
  ),
  downgrade: change(planSchema, isPlan, async (workspaces, id, body, by) =>
    replyTo(await workspaces.downgrade(id, body.plan, by)),
  ),
  "cancel-downgrade": change(emptySchema, isNothing, async (workspaces, id, _, by) =>
    replyTo(await workspaces.cancelDowngrade(id, by)),
  ),
  purchase: change(amountSchema, isAmount, async (workspaces, id, body, by) =>
    replyTo(await workspaces.purchase(id, body.amount_cu_milli, by)),
  ),
};

function change<T extends object>(
  schema: JsonSchema,
  isBody: Validator<T>,
  run: (workspaces: Workspaces, id: string, body: T, by: ChangedBy) => Promise<Reply>,
): Change {
  const takesNothing = isBody({});
  return {
    schema,
    takesNothing,
    async run(workspaces, id, x, by) {
      const isLeftOut = takesNothing && (x.body === undefined || x.body.length === 0);
      const json = isLeftOut ? { ok: true as const, value: {} } : x.json();
      if (!json.ok) {
        return refuse("GATEWAY_INVALID_PARAMS", { message: "the body is not valid JSON" });
      }
      const { value } = json;
      return isBody(value) ? run(workspaces, id, value, by) : violated(isBody.errors ?? []);
    },
  };
}

function violated(errors: readonly SchemaError[]): Reply {
  const violations = errors.slice(0, maxViolations).map(({ instancePath, message }) => ({
    path: `/body${instancePath}`,
    reason: message ?? "is not allowed",
  }));
  return refuse("GATEWAY_INVALID_PARAMS", {
    message: "the body does not match its schema",
    details: { violations },
  });
}
