/** Tools of the conformance suites that ask their client something before they answer. */
import {
  toolFailure,
  type Dialogue,
  type Questions,
  type Tool,
  type ToolContext,
  type ToolResult,
} from "sluice-gateway/services";

type Requests = Questions["requests"];
type Properties = Readonly<Record<string, object>>;

const elicit = (message: string, properties: Properties): Requests[string] => ({
  method: "elicitation/create",
  params: {
    mode: "form",
    message,
    requestedSchema: { type: "object", properties, required: Object.keys(properties) },
  },
});
const sample = (text: string, maxTokens = 100): Requests[string] => ({
  method: "sampling/createMessage",
  params: { messages: [{ role: "user", content: { type: "text", text } }], maxTokens },
});
const roots: Requests[string] = { method: "roots/list", params: {} };
const askName = elicit("What is your name?", { name: { type: "string" } });
const askOk = elicit("Please confirm", { ok: { type: "boolean" } });

const asking = (requests: Requests, state?: unknown): ToolResult => ({
  ...toolFailure("GATEWAY_INVALID_PARAMS", "the tool needs answers that this client cannot give"),
  asks: { requests, ...(state !== undefined && { state }) },
});
const textResult = (text: string): ToolResult => ({
  ok: true,
  value: null,
  content: [{ type: "text", text }],
});

const isAnswer = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Asks until every question has an answer. */
function tool(
  name: string,
  requests: Requests,
  answered: (dialogue: Dialogue) => string | ToolResult,
  state?: unknown,
): Tool<never> {
  return {
    name,
    description: `The suites' ${name}.`,
    inputSchema: { type: "object", properties: {} },
    price: 0,
    capability: undefined,
    call(_input: never, { dialogue }: ToolContext): ToolResult {
      const keys = Object.keys(requests);
      const done = dialogue !== undefined && keys.every((key) => isAnswer(dialogue.answers[key]));
      if (!done) return asking(requests, state);
      const result = answered(dialogue);
      return typeof result === "string" ? textResult(result) : result;
    },
  };
}

const prefix = "test_input_required_result_";

const multiRound: Tool<never> = {
  ...tool(`${prefix}multi_round`, {}, () => ""),
  call(_input: never, { dialogue }: ToolContext): ToolResult {
    const step1 = elicit("Step 1: What is your name?", { name: { type: "string" } });
    const step2 = elicit("Step 2: What is your favorite color?", { color: { type: "string" } });
    const { answers = {}, state } = dialogue ?? {};
    if (isAnswer(answers["step2"]) && state === 2) return textResult("both steps are done");
    if (isAnswer(answers["step1"]) && state === 1) return asking({ step2 }, 2);
    return asking({ step1 }, 1);
  },
};

/** Asks only for what the client has declared. */
const capabilities: Tool<never> = {
  ...tool(`${prefix}capabilities`, {}, () => ""),
  call(_input: never, { dialogue }: ToolContext): ToolResult {
    const declared = dialogue?.capabilities ?? {};
    if (dialogue !== undefined && Object.keys(dialogue.answers).length > 0)
      return textResult("done");
    return asking({
      ...("elicitation" in declared && { name: askName }),
      ...("sampling" in declared && { greeting: sample("Generate a greeting") }),
    });
  },
};

const textOfAnswer = (answer: unknown): string => {
  const { content } = answer as { content?: { text?: unknown } };
  return typeof content?.text === "string" ? content.text : JSON.stringify(answer);
};

/** Asks its client the question in its own input. */
const echoing = (name: string, member: string, request: (given: string) => Requests[string]) => ({
  ...tool(name, {}, () => ""),
  inputSchema: {
    type: "object",
    properties: { [member]: { type: "string" } },
    required: [member],
  },
  call(input: never, { dialogue }: ToolContext): ToolResult {
    const answer = dialogue?.answers["question"];
    const { [member]: given = "" } = input as Readonly<Record<string, string>>;
    return isAnswer(answer)
      ? textResult(textOfAnswer(answer))
      : asking({ question: request(given) });
  },
});

const titled = (...names: readonly string[]): object[] =>
  names.map((name, at) => ({ const: `value${at + 1}`, title: name }));
const options = ["option1", "option2", "option3"];

/** Contains one property of every kind of choice (SEP-1330). */
const choices: Properties = {
  untitledSingle: { type: "string", enum: options },
  titledSingle: { type: "string", oneOf: titled("First", "Second", "Third") },
  legacyEnum: {
    type: "string",
    enum: ["opt1", "opt2", "opt3"],
    enumNames: ["Option One", "Option Two", "Option Three"],
  },
  untitledMulti: { type: "array", items: { type: "string", enum: options } },
  titledMulti: { type: "array", items: { anyOf: titled("First", "Second", "Third") } },
};

/** Contains one property of every kind with a default (SEP-1034). */
const defaults: Properties = {
  name: { type: "string", default: "John Doe" },
  age: { type: "integer", default: 30 },
  score: { type: "number", default: 95.5 },
  status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
  verified: { type: "boolean", default: true },
};

const person: Properties = { username: { type: "string" }, email: { type: "string" } };

export const askingTools: readonly Tool<never>[] = [
  echoing("test_sampling", "prompt", (prompt) => sample(prompt)),
  echoing("test_elicitation", "message", (message) => elicit(message, person)),
  tool("test_elicitation_sep1034_defaults", { q: elicit("Defaults", defaults) }, (dialogue) =>
    textOfAnswer(dialogue.answers["q"]),
  ),
  tool("test_elicitation_sep1330_enums", { q: elicit("Choices", choices) }, (dialogue) =>
    textOfAnswer(dialogue.answers["q"]),
  ),
  tool(`${prefix}elicitation`, { user_name: askName }, ({ answers }) => {
    const { content } = answers["user_name"] as { content?: { name?: unknown } };
    const name = content?.name;
    return typeof name === "string" ? `Hello, ${name}!` : asking({ user_name: askName });
  }),
  tool(
    `${prefix}sampling`,
    { capital_question: sample("What is the capital of France?") },
    ({ answers }) => JSON.stringify(answers["capital_question"]),
  ),
  tool(`${prefix}list_roots`, { client_roots: roots }, ({ answers }) =>
    JSON.stringify(answers["client_roots"]),
  ),
  tool(
    `${prefix}request_state`,
    { confirm: askOk },
    ({ state }) => (state === "kept" ? "state-ok" : "state lost"),
    "kept",
  ),
  tool(
    `${prefix}multiple_inputs`,
    { user_name: askName, greeting: sample("Generate a greeting", 50), client_roots: roots },
    () => "all three",
    "kept",
  ),
  multiRound,
  tool(`${prefix}tampered_state`, { confirm: askOk }, () => "state-ok", "kept"),
  capabilities,
  tool("test_missing_capability", { question: sample("Anything") }, () => "done"),
  tool("test_streaming_elicitation", { user_name: askName }, () => "done"),
];
