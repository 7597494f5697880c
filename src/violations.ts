/** How a refusal tells what of a request does not match its schema: in `details`, for documents. */
import type { JsonSchema } from "./services/json.ts";

/** decisions.md section 6: `{ violations: [{ path, reason }] }`, a path into the request each, `most` of them or fewer. */
export function violationsSchema(most: number): JsonSchema {
  return {
    type: "object",
    properties: {
      violations: {
        type: "array",
        maxItems: most,
        items: {
          type: "object",
          properties: { path: { type: "string" }, reason: { type: "string" } },
          required: ["path", "reason"],
          additionalProperties: false,
        },
      },
    },
    required: ["violations"],
    examples: [{ violations: [{ path: "/body", reason: "must be object" }] }],
    additionalProperties: false,
  };
}
