import type { JsonSchema } from "../plugin.ts";
import { defaultTimeoutMs } from "./config.ts";

export const modeSchema: JsonSchema = {
  enum: ["enforce", "shadow", "off"],
  description:
    "enforce is the default. A step with shadow runs and counts the requests that it would refuse, but does not refuse them. A step with off does not run.",
};

export const timeoutSchema: JsonSchema = {
  type: "integer",
  minimum: 0,
  maximum: 3_600_000,
  description: `Time limit in milliseconds of one asynchronous hook of the step (default ${defaultTimeoutMs}). When it expires, the request is answered with 500. 0 means no limit.`,
};

export const onErrorSchema: JsonSchema = {
  enum: ["refuse", "skip"],
  description:
    "refuse is the default: if a hook of the step fails or exceeds its time limit, the request is answered with 500. With skip, the request continues without the step.",
};

export const whenSchema: JsonSchema = {
  type: "object",
  description: "The step runs only for requests that meet all of these conditions.",
  properties: {
    path: {
      type: "string",
      format: "condition-path",
      description: "A path, or a prefix that ends in *.",
    },
    methods: {
      type: "array",
      items: { type: "string" },
      minItems: 1,
      description: "HTTP methods in upper case.",
    },
    header: {
      type: "object",
      description:
        "Maps a header name to its exact value, or to * if the header only has to be present.",
      additionalProperties: { type: "string" },
      minProperties: 1,
    },
  },
  additionalProperties: false,
  minProperties: 1,
};
