/**
 * The tools, prompts and documents that the official conformance suites expect of a server, under fixed names. They use
 * the same contract as any third party's tools. Only tests load them.
 */
import { toolFailure, type Content, type Dialogue, type Tool } from "sluice-gateway/services";
import { defineTools } from "../../../src/plugin.ts";
import { askingTools } from "./asking-fixtures.ts";

/** One red pixel. */
export const png =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/** A WAV file without samples. */
const wav = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA==";

export const text = (value: string): Content => ({ type: "text", text: value });
const image: Content = { type: "image", data: png, mimeType: "image/png" };
const embedded = (uri: string, mimeType: string, value: string): Content => ({
  type: "resource",
  resource: { uri, mimeType, text: value },
});

const noInput = { type: "object", properties: {} };

export function fixture(
  name: string,
  call: Tool<never>["call"],
  inputSchema: Tool["inputSchema"] = noInput,
): Tool<never> {
  const description = `The suites' ${name}.`;
  return { name, description, inputSchema, price: 0, capability: undefined, call };
}

const showing = (name: string, ...content: Content[]): Tool<never> =>
  fixture(name, () => ({ ok: true, value: null, content }));

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export default defineTools({
  name: "conformance-fixtures",
  description: "Fixtures of the conformance suites.",
  start: () => ({
    tools: [
      showing("test_simple_text", text("This is a simple text response for testing.")),
      showing("test_image_content", image),
      showing("test_audio_content", { type: "audio", data: wav, mimeType: "audio/wav" }),
      showing(
        "test_embedded_resource",
        embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."),
      ),
      showing(
        "test_multiple_content_types",
        text("Multiple content types test:"),
        image,
        embedded(
          "test://mixed-content-resource",
          "application/json",
          '{"test":"data","value":123}',
        ),
      ),
      fixture("test_error_handling", () =>
        toolFailure(
          "GATEWAY_TOOL_EXECUTION_ERROR",
          "This tool intentionally returns an error for testing",
        ),
      ),
      fixture("test_tool_with_progress", async (_input, context) => {
        for (const done of [0, 50, 100]) {
          context.progress(done, 100);
          if (done < 100) await wait(50);
        }
        return { ok: true, value: null, content: [text("done")] };
      }),
      fixture("test_custom_headers", (input) => ({ ok: true, value: input }), {
        type: "object",
        properties: {
          region: { type: "string", "x-mcp-header": "Region" },
          shard: { type: "integer", "x-mcp-header": "Shard" },
          inner: {
            type: "object",
            properties: { dry: { type: "boolean", "x-mcp-header": "Dry-Run" } },
          },
        },
        required: ["region"],
      }),
      fixture("test_logging_tool", (_input, context) => {
        context.log("info", "for those who asked");
        return { ok: true, value: null, content: [text("done")] };
      }),
      fixture("test_tool_with_logging", async (_input, context) => {
        context.log("info", "Tool execution started");
        await wait(50);
        context.log("info", "Tool processing data");
        await wait(50);
        context.log("info", "Tool execution completed");
        return { ok: true, value: null, content: [text("done")] };
      }),
      fixture("json_schema_2020_12_tool", (input) => ({ ok: true, value: input }), {
        $schema: "https://json-schema.org/draft/2020-12/schema",
        type: "object",
        $defs: {
          address: {
            $anchor: "addressDef",
            type: "object",
            properties: { street: { type: "string" }, city: { type: "string" } },
          },
        },
        properties: {
          name: { type: "string" },
          address: { $ref: "#/$defs/address" },
        },
        additionalProperties: false,
      }),
      ...askingTools,
    ],
    resources: [
      {
        uri: "test://static-text",
        name: "static-text",
        description: "A text.",
        mimeType: "text/plain",
        capability: undefined,
        read: () => "This is the content of the static text resource.",
      },
      {
        uri: "test://static-binary",
        name: "static-binary",
        description: "A picture.",
        mimeType: "image/png",
        capability: undefined,
        read: () => Buffer.from(png, "base64"),
      },
    ],
    resourceTemplates: [
      {
        uriTemplate: "test://template/{id}/data",
        name: "template",
        description: "A document by its id.",
        mimeType: "application/json",
        capability: undefined,
        read(uri) {
          const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
          if (id === undefined) return undefined;
          return JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
        },
      },
    ],
    prompts: [
      {
        name: "test_simple_prompt",
        description: "A prompt.",
        capability: undefined,
        get: () => messages(text("This is a simple prompt for testing.")),
      },
      {
        name: "test_prompt_with_arguments",
        description: "A prompt with arguments.",
        arguments: [
          { name: "arg1", description: "First test argument", required: true, complete: parts },
          { name: "arg2", description: "Second test argument", required: true },
        ],
        capability: "docs:read",
        get: ({ arg1, arg2 }) =>
          messages(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
      },
      {
        name: "test_prompt_with_embedded_resource",
        description: "A prompt with a document in it.",
        arguments: [{ name: "resourceUri", description: "The document.", required: true }],
        capability: undefined,
        get: ({ resourceUri = "" }) =>
          messages(
            embedded(resourceUri, "text/plain", "Embedded resource content for testing."),
            text("Please process the embedded resource above."),
          ),
      },
      {
        name: "test_prompt_with_image",
        description: "A prompt with a picture in it.",
        capability: undefined,
        get: () => messages(image, text("Please analyze the image above.")),
      },
      {
        name: "test_input_required_result_prompt",
        description: "A prompt that asks first.",
        capability: undefined,
        get: (_values, { dialogue }) => askingPrompt(dialogue),
      },
    ],
  }),
});

function parts(value: string): readonly string[] {
  if (value === "broken") throw new Error("a secret of the completion");
  return ["paris", "park", "party"].filter((word) => word.startsWith(value));
}

function messages(...content: Content[]): {
  ok: true;
  messages: { role: "user"; content: Content }[];
} {
  return { ok: true, messages: content.map((one) => ({ role: "user", content: one })) };
}

function askingPrompt(dialogue: Dialogue | undefined) {
  if (dialogue?.answers["user_context"] !== undefined) {
    return messages(text(`With ${JSON.stringify(dialogue.answers["user_context"])}`));
  }
  const method = "elicitation/create";
  const properties = { context: { type: "string" } };
  const params = {
    mode: "form",
    message: "What context should the prompt use?",
    requestedSchema: { type: "object", properties, required: ["context"] },
  };
  const asks = { requests: { user_context: { method, params } } };
  return { ...toolFailure("GATEWAY_INVALID_PARAMS", "the prompt needs an answer"), asks };
}
