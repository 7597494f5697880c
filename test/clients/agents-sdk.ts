/** `@openai/agents`, whose runner calls the tools by itself. */
import { Agent, OpenAIProvider, Runner, tool } from "@openai/agents";
import { OpenAI } from "openai";
import { add, schema, sum, type Client, type Target } from "./client.ts";
import { chatRefusals, readOpenAI, responsesRefusals } from "./openai.ts";

function callsAt({ url, key, model }: Target, useResponses: boolean): ReturnType<Client["at"]> {
  const openAIClient = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
  const modelProvider = new OpenAIProvider({ openAIClient, useResponses });
  const runner = new Runner({ modelProvider, tracingDisabled: true });
  const basic = { name: "Tester", model, modelSettings: { maxTokens: 100 } };
  const stream = async (
    agent: Agent,
    onText: (text: string) => void = () => {},
    signal?: AbortSignal,
  ) => {
    const result = await runner.run(agent, "Hi", { stream: true, ...(signal && { signal }) });
    for await (const text of result.toTextStream()) onText(text);
    await result.completed;
    return result;
  };
  return {
    async ask() {
      const { finalOutput: text = "", state } = await runner.run(new Agent(basic), "Hi");
      return { text, tokens: [state.usage.inputTokens, state.usage.outputTokens] };
    },
    async stream(onText, signal) {
      const { finalOutput: text = "", state } = await stream(new Agent(basic), onText, signal);
      return { text, tokens: [state.usage.inputTokens, state.usage.outputTokens] };
    },
    async useTool(how, run) {
      const parameters = { ...schema, required: ["n" as const] as "n"[] };
      const execute = (input: unknown): string => (run(input), sum);
      const agent = new Agent({ ...basic, tools: [tool({ ...add, parameters, execute })] });
      if (how === "streamed") return (await stream(agent)).finalOutput ?? "";
      return (await runner.run(agent, "Hi")).finalOutput ?? "";
    },
    async parse() {
      const agent = new Agent({
        ...basic,
        outputType: {
          type: "json_schema",
          name: "answer",
          strict: true,
          schema: { ...schema, required: ["n"] },
        },
      });
      return (await runner.run(agent, "Hi")).finalOutput;
    },
  };
}

const shared = {
  name: "@openai/agents",
  read: readOpenAI,
  rejectsAbort: false,
  readsStreamedInput: true,
};

export const agentsSdkClients: readonly Client[] = [
  { ...shared, api: "chat", at: (target) => callsAt(target, false), refusals: chatRefusals },
  {
    ...shared,
    api: "responses",
    at: (target) => callsAt(target, true),
    refusals: responsesRefusals,
  },
];
