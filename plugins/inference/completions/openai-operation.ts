/** The parts of OpenAPI descriptions that the APIs with OpenAI's errors share. */
import type { JsonSchema, Operation } from "sluice-gateway/plugin";

const text = { type: "string" };

function errorWith(code: JsonSchema): JsonSchema {
  const error = {
    type: "object",
    properties: {
      message: text,
      type: text,
      param: { type: ["string", "null"] },
      code,
      resets_at: { description: "Time in Unix seconds.", type: "integer" },
    },
    required: ["message", "type", "param", "code"],
  };
  return { type: "object", properties: { error }, required: ["error"] };
}

type Answer = NonNullable<Operation["answers"]>[number];

/** Describes an error whose code is one of `codes`, the codes of OpenAI. */
export function openaiFailure(description: string, codes: readonly string[]): Answer {
  return { description, content: { "application/json": errorWith({ enum: codes }) } };
}

/** The refusals of a surface whose `renderRefusal` is that of openai-errors.ts. */
export const openaiRefusals: Pick<Operation, "refusalBody" | "answerHeaders"> = {
  refusalBody: errorWith(text),
  answerHeaders: {
    "X-Sluice-Error": {
      description: "The gateway's code of an error.",
      schema: { ...text, examples: ["GATEWAY_RATE_LIMITED"] },
    },
    "Retry-After": {
      description: "Minimum number of seconds to wait before a retry.",
      schema: { type: "integer" },
    },
  },
};
