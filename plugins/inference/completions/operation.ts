import type { JsonSchema, Operation } from "sluice-gateway/plugin";

type Answer = NonNullable<Operation["answers"]>[number];
type Header = NonNullable<Answer["headers"]>[string];

export const text = { type: "string" };
export const count = { type: "integer", minimum: 0 };
export const modelId = {
  description: "Id of a model that `GET /v1/models` lists.",
  ...text,
  minLength: 1,
};
export const usedCUMilli = { description: "Cost of the answer in milli-CU.", ...count };

export function objectOf(properties: object, required = Object.keys(properties)): JsonSchema {
  return { type: "object", properties, required };
}

export function header(description: string, example: string | number): Header {
  return {
    description,
    schema: { type: typeof example === "string" ? "string" : "integer", examples: [example] },
  };
}

type Headers = Readonly<Record<string, Header>>;

export const retryAfter: Headers = {
  "Retry-After": header("Minimum number of seconds to wait before a retry.", 5),
};

interface DescribedApi extends Omit<Operation, "answers" | "body" | "path" | "refusals"> {
  readonly request: JsonSchema;
  readonly answer: Answer;
  readonly errors: Readonly<Record<400 | 404 | 503, JsonSchema>>;
}

export function completionOperation({
  request,
  answer,
  errors,
  ...operation
}: DescribedApi): Operation {
  const failed = (description: string, status: keyof typeof errors): Answer => ({
    description,
    content: { "application/json": errors[status] },
  });
  return {
    ...operation,
    path: {
      type: "object",
      properties: { network: { description: "Network whose workers may answer.", ...text } },
    },
    body: { content: { "application/json": request }, required: true },
    answers: {
      200: answer,
      400: failed("The request is not valid, or has a member that cannot be served.", 400),
      404: failed("No network with this API lists the model. The message names it.", 404),
      503: {
        ...failed("No worker can answer at the moment.", 503),
        headers: retryAfter,
      },
    },
    refusals: [{ code: "GATEWAY_NOT_FOUND", description: "The network does not exist." }],
  };
}

export function ignoredHeader(example: string): Headers {
  return { "X-Sluice-Ignored": header("Members of the request that have no effect.", example) };
}

export function chatErrorOf(type: string, codes: readonly string[], sample: string): JsonSchema {
  const message = { ...text, examples: [sample] };
  return objectOf({ error: objectOf({ message, type: { const: type }, code: { enum: codes } }) });
}

const openaiError = (code: JsonSchema): JsonSchema =>
  objectOf({
    error: objectOf(
      {
        message: text,
        type: text,
        param: { type: ["string", "null"] },
        code,
        resets_at: { description: "Time in Unix seconds.", type: "integer" },
      },
      ["message", "type", "param", "code"],
    ),
  });

/** The errors as openai-errors.ts renders them. `codes`: those of invalid requests. */
export function openaiFailures(
  ...codes: readonly string[]
): Pick<DescribedApi, "errors" | "refusalBody" | "answerHeaders"> {
  return {
    errors: {
      400: openaiError({ enum: codes }),
      404: openaiError({ enum: ["model_not_found"] }),
      503: openaiError({ enum: ["server_error"] }),
    },
    refusalBody: openaiError(text),
    answerHeaders: {
      "X-Sluice-Error": header("The gateway's code of an error.", "GATEWAY_RATE_LIMITED"),
      ...retryAfter,
    },
  };
}
