/** Answers of a hostile model server to a request for at most `maxTokens` tokens and the tool `f`. */
import { chunkOf, eventOf, usageChunkOf } from "../networks/chat-events.ts";
import type { Script } from "../networks/scripted-worker.ts";
import {
  cutImmediately,
  failing,
  raw,
  usageOf,
  whole,
  workerSecret,
} from "../networks/worker-scripts.ts";
import { inRequestedShape } from "../chat/gateway.ts";
import { callDelta, deltas } from "../responses/gateway.ts";

export const maxTokens = 100;

const absurdUsage = [
  usageOf(1e9, 1e9),
  usageOf(1e6, 2),
  { prompt_tokens: -1e9, completion_tokens: 5 },
  { prompt_tokens: "1e400", completion_tokens: "20" },
  [usageOf(1e9, 1e9)],
];

const malformedCalls = [
  7,
  [7],
  ["edit"],
  [{}],
  [{ function: 7 }],
  [{ index: -1, id: 7, function: { name: [], arguments: {} } }],
  [{ index: 0, function: { arguments: "{}" } }],
  [{ index: 1e9, id: "x".repeat(100_000), function: { name: "f", arguments: "not json" } }],
];

const content = eventOf(chunkOf({ content: "word " }));
const stop = eventOf(chunkOf({}, { finishReason: "stop" }));
const done = eventOf("[DONE]");
const failure = eventOf({ error: { message: workerSecret } });
const first = { id: "call_1", name: "f" };

/** Endless streams, sent in pieces until the gateway stops reading. */
function endless(pieceAt: (at: number) => string): Script {
  return async (exchange) => {
    exchange.begin();
    for (let at = 0; (await exchange.push(pieceAt(at))) === "taken"; at++);
  };
}

export const hostileScripts: readonly (readonly [name: string, script: Script])[] = [
  ...absurdUsage.map(
    (usage) =>
      [
        `reports ${JSON.stringify(usage)} with every chunk`,
        inRequestedShape({ usage, extra: { usage } }),
      ] as const,
  ),
  ...malformedCalls.map(
    (calls) =>
      [
        `writes the calls ${JSON.stringify(calls).slice(0, 80)}`,
        deltas([{ tool_calls: calls }, { content: "x" }], "tool_calls"),
      ] as const,
  ),
  [
    "continues a call after its end",
    deltas([callDelta(0, "{}", first), { content: "x" }, callDelta(0, "{}")]),
  ],
  [
    "opens calls without end",
    endless((at) => eventOf(chunkOf(callDelta(at, "", { id: `c${at}`, name: "f" }))).repeat(20)),
  ],
  [
    "writes arguments without end",
    endless((at) => eventOf(chunkOf(callDelta(0, "x", at === 0 ? first : undefined))).repeat(20)),
  ],
  ["writes one-token chunks without end", endless(() => content.repeat(100))],
  [
    "writes long chunks without end",
    endless(() => eventOf(chunkOf({ content: "x".repeat(10_000) }))),
  ],
  ["writes empty choices without end", endless(() => eventOf(chunkOf({})).repeat(100))],
  ["writes thoughts without end", endless(() => eventOf(chunkOf({ reasoning: "hm" })).repeat(100))],
  ["writes one line without end", endless(() => "data: x".repeat(1_000))],
  ["writes all of it at once", raw(200, {}, [content.repeat(5_000) + stop + done])],
  ["writes a whole answer of a million words", whole({ tokens: ["word ".repeat(1_000_000)] })],
  ["says that it is compressed", raw(200, { "content-encoding": "gzip" }, ["data: {}\n\n"])],
  [
    "compresses what it writes a thousand times over",
    (exchange) => raw(200, {}, [content.repeat(50_000) + stop + done], true)(exchange),
  ],
  ["says nothing of use", raw(200, {}, ["\0\0\0", "{", "data: [1,2", "\n\n"])],
  ["is deeply nested", raw(200, {}, [`data: {"choices":${"[".repeat(100_000)}\n\n`])],
  ["says that it is done at once", raw(200, {}, [done])],
  [
    "reports usage and nothing else",
    raw(200, {}, [eventOf(usageChunkOf(usageOf(1e9, 1e9))) + done]),
  ],
  [
    "has names of Object.prototype",
    raw(200, {}, [
      'data: {"__proto__":{"usage":1},"constructor":1,"choices":[{"index":0,"delta":{"__proto__":{"content":"x"},"tool_calls":[{"__proto__":1}]}}]}\n\n',
      done,
    ]),
  ],
  ["goes on after its end", raw(200, {}, [content + stop + done, content.repeat(100) + done])],
  ["reports an error at once", raw(200, {}, [failure])],
  ["reports an error after a word", raw(200, {}, [content, failure, content, done])],
  [
    "cuts its stream after a word",
    async (exchange) => {
      exchange.begin();
      await exchange.push(content);
      exchange.cut();
    },
  ],
  ["ends its head oddly", raw(200, { "content-length": "3" }, ["abc"])],
  ["refuses", failing(418)],
  ["cuts the connection", cutImmediately],
];
