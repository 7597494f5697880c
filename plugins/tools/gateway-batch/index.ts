/**
 * Tools plugin `gateway-batch`: the tool gateway_batch, several calls in one (gateway.md, "gateway_batch behaviour").
 */
import {
  defineTools,
  toolFailure,
  type Clock,
  type Tool,
  type ToolContext,
  type ToolFailure,
  type ToolOutcome,
} from "sluice-gateway/plugin";

interface Call {
  readonly tool: string;
  readonly params: object;
}
interface Input {
  readonly calls: readonly Call[];
}

const name = "gateway_batch";
const maxCalls = 20;
/** A batch ends before its own time-out of 30 s, so that what was done (and charged) is told. */
const batchMs = 29_000;
/** A batch whose results have grown to this, characters, begins no further call: they make one result. */
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
    // The wrapper adds nothing: the catalogue counts what the inner calls cost.
    price: { estimateMilli: 0, of: () => 0 },
    // What the inner calls need is asked of each.
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

/** Asked before the schema, so of anything. */
function isTooLarge(input: unknown): boolean {
  if (typeof input !== "object" || input === null || !("calls" in input)) return false;
  return Array.isArray(input.calls) && input.calls.length > maxCalls;
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
  return { ok: true as const, json: `[${items.join(",")}]` };
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

/** One item of the result. The error starts with its code, which is what callers branch on. */
function itemOf(tool: string, outcome: ToolOutcome | ToolFailure): string {
  const spoken = JSON.stringify(tool);
  if (outcome.ok) {
    return `{"tool":${spoken},"content":${outcome.json},"usedCUMilli":${outcome.usedCUMilli}}`;
  }
  const error = JSON.stringify(`${outcome.code}: ${outcome.message}`);
  return `{"tool":${spoken},"error":${error},"usedCUMilli":0}`;
}
