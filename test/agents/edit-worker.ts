/** A worker whose model edits a file with the command tool of an agent: two calls in parallel, a change, an answer. */
import { runCommand, type ToolCall } from "../../plugins/inference/demo/file-task.ts";
import { chunkOf, eventOf, usageChunkOf } from "../plugins/inference/networks/chat-events.ts";
import {
  startWorker,
  type Exchange,
  type Worker,
} from "../plugins/inference/networks/scripted-worker.ts";
import { failing, streamed, usageOf } from "../plugins/inference/networks/worker-scripts.ts";
import type { Task } from "./programs.ts";

export const model = "Test/Editor-1";
const file = "note.txt";
export const task: Task = {
  prompt: `Use American spelling in ${file}.`,
  file,
  text: "The colour of the sluice is grey.\n",
};
export const after = "The color of the sluice is gray.\n";

const turns = [["ls", `cat ${file}`], [`sed -i 's/colour/color/; s/grey/gray/' ${file}`]];

/** Starts three workers, of which the first two fail. `breaks`: the first stream of the second turn breaks. */
export async function startEditWorkers({ breaks }: { readonly breaks: boolean }): Promise<Worker> {
  const failed = new Set<string>();
  let isBroken = !breaks;
  const worker = await startWorker({
    models: [model],
    otherwise(exchange) {
      const [, id = ""] = exchange.path.split("/");
      if (failed.size < 2) failed.add(id);
      if (failed.has(id)) return failing(500)(exchange);
      if (isBroken || turnOf(exchange) !== 1) return answer(exchange);
      isBroken = true;
      return streamed({ model, stop: { after: 2, how: "cut" } })(exchange);
    },
  });
  const workers = ["w1", "w2", "w3"].map((id) => ({ id, model, url: `${worker.url}/${id}` }));
  worker.documents.set("/status", { workers });
  return worker;
}

function answer(exchange: Exchange): void {
  const { tools, stream } = exchange.body;
  const commands = turns[turnOf(exchange)] ?? [];
  // There are none after the last turn, or if the request has no suitable tool.
  const calls = commands.flatMap((command) => runCommand(tools, command) ?? []);
  const content = calls.length === 0 ? "All done." : null;
  const finish = calls.length === 0 ? "stop" : "tool_calls";
  const toolCalls = calls.map((call, index) => ({
    index,
    id: `call_${index}_${Date.now()}`,
    type: "function",
    function: call,
  }));
  const usage = usageOf(5, 2);
  if (stream !== true) {
    exchange.begin(200, { "content-type": "application/json" });
    const message = { role: "assistant", content, tool_calls: toolCalls };
    const choices = [{ index: 0, message, finish_reason: finish }];
    void exchange.push(JSON.stringify({ id: "1", object: "chat.completion", choices, usage }));
    return exchange.end();
  }
  exchange.begin();
  const deltas = [
    { role: "assistant", content: "" },
    ...(content === null ? [] : [{ content }]),
    // The arguments of the calls arrive in pieces, and the pieces of different calls in turn.
    ...toolCalls.map((call) => ({ tool_calls: [withArguments(call, "")] })),
    ...[0, 1].flatMap((half) =>
      toolCalls.map(({ index, function: { arguments: text } }) => {
        const middle = Math.floor(text.length / 2);
        const piece = half === 0 ? text.slice(0, middle) : text.slice(middle);
        return { tool_calls: [{ index, function: { arguments: piece } }] };
      }),
    ),
  ];
  for (const delta of deltas) void exchange.push(eventOf(chunkOf(delta, { model })));
  void exchange.push(eventOf(chunkOf({}, { model, finishReason: finish })));
  void exchange.push(eventOf(usageChunkOf(usage, { model })) + eventOf("[DONE]"));
  exchange.end();
}

function withArguments(call: { function: ToolCall }, text: string): object {
  return { ...call, function: { ...call.function, arguments: text } };
}

function turnOf({ body: { messages } }: Exchange): number {
  const isCall = (one: unknown) => typeof one === "object" && one !== null && "tool_calls" in one;
  return Array.isArray(messages) ? messages.filter((one) => isCall(one)).length : 0;
}
