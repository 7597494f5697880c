/** A request such as coding agents send in the middle of their work: long instructions, many tools, and a tool's result. */
import type { Api } from "./chat-client.ts";

const instructions = "You are a coding agent. Work in small steps and check each of them.\n".repeat(
  120,
);
const question = "Use American spelling in note.txt.";
const schema = {
  type: "object",
  properties: {
    path: { type: "string", description: "Path of the file, relative to the working folder." },
    text: { type: "string", description: "The new text of the file. ".repeat(8) },
  },
  required: ["path", "text"],
};
const tools = ["edit", "read", "list", "search", "run", "fetch", "plan", "ask", "test", "move"].map(
  (name) => ({ name, description: `Use ${name} as follows. `.repeat(40) }),
);
const call = { id: "call_0", name: "read", arguments: '{"path":"note.txt"}' };
const result = "The colour of the sluice is grey.\n".repeat(100);

/** The prompt has about 25 KB as JSON. */
export function agentPrompt(api: Api, tokens: number): object {
  if (api === "responses") {
    return {
      instructions,
      input: [
        { role: "user", content: question },
        { type: "function_call", call_id: call.id, name: call.name, arguments: call.arguments },
        { type: "function_call_output", call_id: call.id, output: result },
      ],
      tools: tools.map((tool) => ({ type: "function", ...tool, parameters: schema })),
      max_output_tokens: tokens,
    };
  }
  if (api === "messages") {
    const input: unknown = JSON.parse(call.arguments);
    return {
      system: instructions,
      messages: [
        { role: "user", content: question },
        { role: "assistant", content: [{ type: "tool_use", id: call.id, name: call.name, input }] },
        {
          role: "user",
          content: [{ type: "tool_result", tool_use_id: call.id, content: result }],
        },
      ],
      tools: tools.map((tool) => ({ ...tool, input_schema: schema })),
      max_tokens: tokens,
    };
  }
  const { id, ...called } = call;
  return {
    messages: [
      { role: "system", content: instructions },
      { role: "user", content: question },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id, type: "function", function: called }],
      },
      { role: "tool", tool_call_id: id, content: result },
    ],
    tools: tools.map((tool) => ({ type: "function", function: { ...tool, parameters: schema } })),
    max_tokens: tokens,
  };
}
