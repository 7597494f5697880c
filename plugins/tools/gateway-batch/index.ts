/** The tool gateway_batch, which runs several calls as one (gateway.md, "gateway_batch behaviour"). */
import { setImmediate as otherWork } from "node:timers/promises";
import { defineTools, type Clock } from "sluice-gateway/plugin";
import {
  toolFailure,
  type Tool,
  type ToolContext,
  type ToolFailure,
  type ToolOutcome,
} from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";

interface Call {
  readonly tool: string;
  readonly params: object;
}
interface Input {
  readonly calls: readonly Call[];
}

const name = "gateway_batch";
const maxCalls = 20;
/** The limit is shorter than that of a tool (30 s), so that completed (and charged) calls are reported. */
const batchMs = 29_000;
/** No further call begins after this number of characters, because all results become one result. */
const maxResultChars = 24 * 1024 * 1024;

const inputSchema = {
  type: "object",
  properties: {
    calls: {
      description: "The calls, run one after the other.",
      type: "array",
      maxItems: maxCalls,
      items: {
        type: "object",
        properties: {
          tool: { description: "Name of the tool.", type: "string" },
          params: { description: "Input of the tool.", type: "object" },
        },
        required: ["tool", "params"],
      },
    },
  },
  required: ["calls"],
};

export default defineTools({
  name: "gateway-batch",
  description: "Adds gateway_batch, which runs several tool calls of one request.",
  start: (_, { clock }) => ({ tools: [batchTool(clock)] }),
});

function batchTool(clock: Clock): Tool<Input> {
  return {
    name,
    description:
      "Runs up to 20 tool calls one after the other. Each call succeeds or fails separately, and is charged separately. Write tools are refused.",
    inputSchema,
    // The batch itself is free. The catalogue adds the cost of the inner calls.
    price: { estimateMilliCu: 0, of: () => 0 },
    // The capability is checked for each inner call.
    capability: undefined,
    annotations: { title: "Batch of tool calls", readOnlyHint: true, openWorldHint: true },
    before: (input) => (isTooLarge(input) ? tooLarge : undefined),
    call: (input, context) => run(input.calls, context, clock),
  };
}

const tooLarge = toolFailure("GATEWAY_BATCH_TOO_LARGE", `a batch holds at most ${maxCalls} calls`);
const nested = toolFailure("GATEWAY_INVALID_PARAMS", "a batch cannot contain a batch");
const outOfTime = toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "the batch ran out of time");
const outOfRoom = toolFailure(
  "GATEWAY_TOOL_EXECUTION_ERROR",
  "not run: the results of the earlier calls are too large",
);

/** Runs before the schema is checked, so the input can be any value. */
function isTooLarge(input: unknown): boolean {
  const calls = isObject(input) ? input["calls"] : undefined;
  return Array.isArray(calls) && calls.length > maxCalls;
}

async function run(calls: readonly Call[], context: ToolContext, clock: Clock) {
  const write = calls.find(({ tool }) => context.entry(tool)?.write === true);
  if (write !== undefined) {
    const message = `${write.tool} is a write tool and cannot be part of a batch`;
    return toolFailure("GATEWAY_WRITE_IN_BATCH", message);
  }
  const late = new AbortController();
  using _timer = clock.after(batchMs, () => late.abort());
  const items: string[] = [];
  let chars = 0;
  for (const call of calls) {
    const outcome = chars < maxResultChars ? await runOne(call, context, late.signal) : outOfRoom;
    const item = itemOf(call.tool, outcome);
    items.push(item);
    chars += item.length;
    context.progress(items.length, calls.length);
  }
  const json = `[${items.join(",")}]`;
  // The text has up to 32 MiB, and the surface copies it again.
  await otherWork();
  return { ok: true as const, json };
}

async function runOne(
  { tool, params }: Call,
  context: ToolContext,
  late: AbortSignal,
): Promise<ToolOutcome | ToolFailure> {
  if (tool === name) return nested;
  const outcome = await context.run(tool, params, { signal: late });
  return !outcome.ok && late.aborted ? outOfTime : outcome;
}

/** The error starts with its code, because clients decide by the code. */
function itemOf(tool: string, outcome: ToolOutcome | ToolFailure): string {
  const toolJson = JSON.stringify(tool);
  if (outcome.ok) {
    return `{"tool":${toolJson},"content":${outcome.json},"usedCUMilli":${outcome.usedCUMilli}}`;
  }
  const error = JSON.stringify(`${outcome.code}: ${outcome.message}`);
  return `{"tool":${toolJson},"error":${error},"usedCUMilli":0}`;
}
