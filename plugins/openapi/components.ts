/** What many operations share, each written once under `components`. */
import type { DocumentedBodies, JsonSchema } from "sluice-gateway/plugin";
import type { HeaderObject, Ref, ResponseObject } from "./objects.ts";

/** gateway.md, "Canonical envelope". */
const errorSchema = {
  description: "Every refusal of the gateway's own.",
  type: "object",
  properties: {
    error: { description: "For people, not for parsing.", type: "string" },
    error_code: { description: "For programs; a code never changes its meaning.", type: "string" },
    details: {
      description:
        "Further facts; absent if there are none. `reason` tells apart the statuses that share a code.",
      type: "object",
    },
  },
  required: ["error", "error_code"],
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

  content(bodies: DocumentedBodies): Record<string, { schema: JsonSchema }> {
    return Object.fromEntries(Object.entries(bodies).map(([type, schema]) => [type, { schema }]));
  }

  /** A reference to the one of that name, unless that name has come to mean something else. */
  response(name: string, response: ResponseObject): Ref<ResponseObject> {
    return shared(this.#responses, "responses", name, response);
  }

  header(name: string, header: HeaderObject): Ref<HeaderObject> {
    return shared(this.#headers, "headers", name, header);
  }
}

function shared<T>(known: Map<string, T>, kind: string, name: string, value: T): Ref<T> {
  const first = known.get(name);
  if (first === undefined) known.set(name, value);
  else if (JSON.stringify(first) !== JSON.stringify(value)) return value;
  return { $ref: `#/components/${kind}/${name}` };
}
