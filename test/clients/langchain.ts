import { ChatAnthropic } from "@langchain/anthropic";
import { ChatOpenAI } from "@langchain/openai";
import { add, headersOf, schema, sum, type Client, type Target } from "./client.ts";

type ChatModel = Pick<ChatOpenAI | ChatAnthropic, "invoke" | "stream" | "bindTools"> & {
  withStructuredOutput(
    schema: object,
    config: { method: "jsonSchema" },
  ): { invoke(input: string): Promise<unknown> };
};

interface Thrown {
  readonly status?: number;
  readonly headers?: unknown;
  readonly lc_error_code?: string;
  readonly message: string;
}

/** `read`: callers look at these members, regardless of the class of the error. */
const shared = {
  read(error: unknown): ReturnType<Client["read"]> {
    const { status, headers, lc_error_code: kind, message } = error as Thrown;
    return { status, header: headersOf(headers), message, kind };
  },
  refusals: {
    "wrong key": "MODEL_AUTHENTICATION",
    "missing capability": undefined,
    "credit used up": "MODEL_RATE_LIMIT",
    "unknown model": "MODEL_NOT_FOUND",
    "request refused by the worker": undefined,
    "failure of the worker": undefined,
  },
  rejectsAbort: true,
  readsStreamedInput: true,
} as const;

/** `showsStatus`: the last chunk of a stream that has not failed has a status. */
function callsWith(chat: ChatModel, showsStatus = false): ReturnType<Client["at"]> {
  return {
    async ask() {
      const { text, usage_metadata: usage } = await chat.invoke("Hi");
      return { text, tokens: [usage?.input_tokens, usage?.output_tokens] };
    },
    async stream(onText, signal) {
      let text = "";
      let status: unknown;
      let [input, output] = [0, 0];
      for await (const chunk of await chat.stream("Hi", { signal })) {
        if (chunk.text !== "") onText(chunk.text);
        text += chunk.text;
        status = chunk.response_metadata["status"];
        input += chunk.usage_metadata?.input_tokens ?? 0;
        output += chunk.usage_metadata?.output_tokens ?? 0;
      }
      // It does not read the event `response.failed`, as docs/recipes/sdks.md says.
      if (showsStatus && status === undefined) throw new Error("the stream has failed");
      return { text, tokens: [input, output] };
    },
    async useTool(how, run) {
      const { name, description, parameters } = add;
      const bound = chat.bindTools([{ name, description, schema: parameters }]);
      const answer = async (messages: Parameters<typeof bound.invoke>[0]) =>
        how === "streamed"
          ? (await Array.fromAsync(await bound.stream(messages))).reduce((all, one) =>
              all.concat(one),
            )
          : bound.invoke(messages);
      const hi = { role: "user", content: "Hi" };
      const asked = await answer([hi]);
      const results = (asked.tool_calls ?? []).map(({ id, args }) => {
        run(args);
        return { role: "tool", tool_call_id: id, content: sum };
      });
      if (results.length === 0) return asked.text;
      return (await answer([hi, asked, ...results])).text;
    },
    parse: () => chat.withStructuredOutput(schema, { method: "jsonSchema" }).invoke("Hi"),
  };
}

function openAIAt({ url, key: apiKey, model }: Target, useResponsesApi: boolean): ChatOpenAI {
  const configuration = { baseURL: `${url}/v1` };
  return new ChatOpenAI({
    model,
    apiKey,
    configuration,
    useResponsesApi,
    maxRetries: 0,
    maxTokens: 100,
  });
}

export const langChainClients: readonly Client[] = [
  {
    ...shared,
    name: "@langchain/openai",
    api: "chat",
    at: (target) => callsWith(openAIAt(target, false)),
  },
  {
    ...shared,
    name: "@langchain/openai",
    api: "responses",
    at: (target) => callsWith(openAIAt(target, true), true),
  },
  {
    ...shared,
    name: "@langchain/anthropic",
    api: "messages",
    at: ({ url, key: apiKey, model }) =>
      callsWith(
        new ChatAnthropic({ model, apiKey, anthropicApiUrl: url, maxRetries: 0, maxTokens: 100 }),
      ),
    // It reads this number from the first event, and the gateway knows it at the end.
    readsStreamedInput: false,
  },
];
