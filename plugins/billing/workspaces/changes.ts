import {
  schemaCompiler,
  type SchemaError,
  type Validator,
} from "sluice-gateway/internal/json-schema";
import { refuse, type Exchange, type JsonSchema, type Reply } from "sluice-gateway/plugin";
import {
  planNames,
  type ChangedBy,
  type PlanName,
  type WorkspaceAnswer,
  type Workspaces,
} from "sluice-gateway/services";
import { replyTo } from "./views.ts";

export type ChangeName = "upgrade" | "downgrade" | "cancel-downgrade" | "purchase";

export interface Change {
  readonly schema: JsonSchema;
  /** True if the body must be `{}` or missing. */
  readonly takesNothing: boolean;
  run(workspaces: Workspaces, id: string, x: Exchange, by: ChangedBy): Promise<Reply>;
}

/** Maximum number of violations in a response, because a small body must not cause a large response. */
export const maxViolations = 20;

const compile = schemaCompiler("workspace change", { allErrors: true });

export const anyPlan = { enum: planNames };
const planSchema = {
  type: "object",
  properties: { plan: anyPlan },
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

const isPlan = compile<Readonly<Record<"plan", PlanName>>>(planSchema);
const isAmount = compile<Readonly<Record<"amount_cu_milli", number>>>(amountSchema);
const isNothing = compile<object>(emptySchema);

export const changes: Readonly<Record<ChangeName, Change>> = {
  upgrade: change(planSchema, isPlan, (to, id, { plan }, by) => to.upgrade(id, plan, by)),
  downgrade: change(planSchema, isPlan, (to, id, { plan }, by) => to.downgrade(id, plan, by)),
  "cancel-downgrade": change(emptySchema, isNothing, (to, id, _, by) => to.cancelDowngrade(id, by)),
  purchase: change(amountSchema, isAmount, (to, id, body, by) =>
    to.purchase(id, body.amount_cu_milli, by),
  ),
};

function change<T extends object>(
  schema: JsonSchema,
  isBody: Validator<T>,
  run: (to: Workspaces, id: string, body: T, by: ChangedBy) => Promise<WorkspaceAnswer<unknown>>,
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
      if (!isBody(value)) return violated(isBody.errors ?? []);
      return replyTo(await run(workspaces, id, value, by));
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
