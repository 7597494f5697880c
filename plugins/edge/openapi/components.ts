/** Collects the parts that operations share. Each part appears once under `components`. */
import type { DocumentedBodies, JsonSchema } from "sluice-gateway/plugin";
import { exampleOf } from "./examples.ts";
import type { HeaderObject, MediaType, Ref, ResponseObject } from "./objects.ts";

/** gateway.md, "Canonical envelope". */
const errorSchema = {
  description: "Error format of all refusals by the gateway itself.",
  type: "object",
  properties: {
    error: { description: "Message for people; do not parse it.", type: "string" },
    error_code: {
      description: "Code for programs; a code never changes its meaning.",
      type: "string",
    },
    details: {
      description:
        "Additional information; missing if there is none. `reason` distinguishes errors that share a code.",
      type: "object",
    },
  },
  required: ["error", "error_code"],
  examples: [{ error: "too many requests", error_code: "GATEWAY_RATE_LIMITED" }],
};

const keyScheme = {
  type: "http",
  scheme: "bearer",
  description: "`Authorization: Bearer gateway_<environment>_<32 hex digits>`: an API key.",
};

export const errorRef = { $ref: "#/components/schemas/Error" } as const;

export class Components {
  readonly #responses = new Map<string, ResponseObject>();
  readonly #headers = new Map<string, HeaderObject>();

  all(): {
    readonly securitySchemes: Readonly<Record<string, JsonSchema>>;
    readonly schemas: Readonly<Record<string, JsonSchema>>;
    readonly headers: Readonly<Record<string, HeaderObject>>;
    readonly responses: Readonly<Record<string, ResponseObject>>;
  } {
    return {
      securitySchemes: { key: keyScheme },
      schemas: { Error: errorSchema },
      headers: Object.fromEntries(this.#headers),
      responses: Object.fromEntries(this.#responses),
    };
  }

  /** `isWhole`: true if the examples include optional members. */
  content(bodies: DocumentedBodies, isWhole: boolean): Record<string, MediaType> {
    const entries = Object.entries(bodies).map(
      ([type, schema]) => [type, schemaWithExample(schema, { isWhole })] as const,
    );
    return Object.fromEntries(entries);
  }

  /** Returns a reference to the response of this name, or the response itself if the name is used for another one. */
  response(name: string, response: ResponseObject): Ref<ResponseObject> {
    return shared(this.#responses, "responses", name, response);
  }

  header(name: string, header: HeaderObject): Ref<HeaderObject> {
    return shared(this.#headers, "headers", name, header);
  }
}

export function schemaWithExample(
  schema: JsonSchema,
  wanted: Parameters<typeof exampleOf>[1],
): MediaType {
  const { examples: _, ...rest } = schema;
  return { schema: rest, ...withExample(exampleOf(schema, wanted)) };
}

export function withExample(example: unknown): { readonly example?: unknown } {
  return example === undefined ? {} : { example };
}

function shared<T>(known: Map<string, T>, kind: string, name: string, value: T): Ref<T> {
  const first = known.get(name);
  if (first === undefined) known.set(name, value);
  else if (JSON.stringify(first) !== JSON.stringify(value)) return value;
  return { $ref: `#/components/${kind}/${name}` };
}
