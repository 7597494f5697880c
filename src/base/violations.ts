import type { JsonSchema } from "../contract/json.ts";

/** Schema of `{ violations: [{ path, reason }] }`. `path` is a path into the request (decisions.md section 6). */
export function violationsSchema(max: number): JsonSchema {
  return {
    type: "object",
    properties: {
      violations: {
        type: "array",
        maxItems: max,
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
