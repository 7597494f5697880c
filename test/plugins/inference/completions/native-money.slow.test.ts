/** Random native streams (Responses, Messages), cut at any byte, are charged exactly, and clients get what arrived. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { createRandom, type Random } from "../../../../bench/soak/random.ts";
import { model, startChat, tokenMilli, type ChatGateway } from "../chat/gateway.ts";
import { dataOf } from "../networks/chat-events.ts";
import { eventsFor } from "../networks/native-events.ts";
import { raw, usageOf } from "../networks/worker-scripts.ts";
import type { Script } from "../networks/scripted-worker.ts";
import { assertEvents as assertMessage } from "../messages/check-stream.ts";
import { eventsOf as messageEventsOf } from "../messages/gateway.ts";
import { assertEvents as assertResponse } from "../responses/check-stream.ts";
import { eventsOf as responseEventsOf } from "../responses/gateway.ts";
import { randomPieces } from "./random-choices.ts";

const rounds = 150;
/** "Hi" makes one token by the gateway's own count. */
const promptTokens = 1;
const network = "speaks: [responses, messages]";

// The events of a worker, as JSON.
// oxlint-disable-next-line typescript/no-explicit-any
type Any = any;

let gateway: ChatGateway;
before(async () => {
  gateway = await startChat({ network });
});
after(() => gateway[Symbol.asyncDispose]());

const apis = [
  {
    path: "/v1/responses",
    body: { input: "Hi" },
    limit: "max_output_tokens",
    ends: ["response.completed", "response.incomplete"],
    usageOf: ({ response }: Any) => response?.usage,
    textOf: ({ type, delta, item }: Any): string[] =>
      type.endsWith(".delta") ? [delta] : type.endsWith(".added") && item?.name ? [item.name] : [],
    check: (text: string): string[] => {
      const events = responseEventsOf(text);
      assertResponse(events);
      return events.flatMap(({ delta }) => (delta === undefined ? [] : [delta]));
    },
    isComplete: (text: string) => /^event: response\.(?:completed|incomplete)$/m.test(text),
  },
  {
    path: "/v1/messages",
    body: { messages: [{ role: "user", content: "Hi" }] },
    limit: "max_tokens",
    ends: ["message_stop"],
    usageOf: ({ usage }: Any) => usage,
    textOf: ({ delta, content_block: block }: Any): string[] => {
      const said = delta?.text ?? delta?.thinking ?? delta?.partial_json ?? block?.name;
      return said === undefined || said === "" ? [] : [said];
    },
    check: (text: string): string[] =>
      assertMessage(messageEventsOf(text)).blocks.map((block) => block.text),
    isComplete: (text: string) => /^event: message_stop$/m.test(text),
  },
] as const;

describe("a native stream that is cut anywhere", { timeout: 300_000 }, () => {
  for (const api of apis) {
    it(`is charged exactly (${api.path})`, async () => {
      const seed = Date.now() | 0;
      const random = createRandom(seed);
      let charges = gateway.charges().length;
      for (let round = 0; round < rounds; round++) {
        const cap = random.pick([5, 60, 2000]);
        const stream = randomStream(api.path, random);
        const cutAt = random.int(3) === 0 ? stream.length : random.int(stream.length);
        const sent = stream.subarray(0, cutAt);
        const about = `seed ${seed}, round ${round}, cap ${cap}, cut at ${cutAt} of ${stream.length}`;
        gateway.worker.script(pieces(randomPieces(sent, random), cutAt === stream.length));
        const asked = { model, stream: true, [api.limit]: cap, ...api.body };
        const answer = await gateway.send(asked, { path: api.path });
        const expected = expectedFor(api, sent.toString(), cap);
        if (expected === undefined) {
          assert.equal(answer.status, 503, about);
          continue;
        }
        charges++;
        const row = (await gateway.charged(charges)).at(-1);
        assert.equal(answer.status, 200, about);
        assert.deepEqual([row?.inputTokens, row?.outputTokens], expected.tokens, about);
        assert.equal(
          row?.usedMilliCu,
          (expected.tokens[0] + expected.tokens[1]) * tokenMilli,
          about,
        );
        assert.equal(api.isComplete(answer.text), expected.isComplete, about);
        const said = api.check(answer.text).join("");
        assert.ok(
          expected.isCapped ? expected.text.startsWith(said) : said === expected.text,
          about,
        );
      }
      // Charges of failed requests would be more.
      assert.equal(gateway.charges().length, charges);
    });
  }
});

function randomStream(path: string, random: Random): Buffer {
  const events = eventsFor({ path });
  let text = "";
  let tokens = 0;
  for (let call = 0, count = random.int(40); count > 0; count--) {
    const said = random.pick(["x", "word ", "é🙂", '"\\', "y".repeat(random.int(300) + 1)]);
    const kind = random.int(12);
    if (kind === 0) {
      const called = { name: "edit", arguments: said };
      text += events.delta({
        tool_calls: [{ index: ++call, id: `call_${call}`, function: called }],
      });
    } else text += events.delta(kind < 4 ? { reasoning_content: said } : { content: said });
    tokens += random.int(2) + 1;
  }
  const usage = random.pick([usageOf(7, tokens), usageOf(7, tokens), usageOf(1e8, tokens), {}]);
  const end = events.end(random.pick(["stop", "length"]), usage);
  return Buffer.from((text === "" ? events.delta({}) : text) + end);
}

function pieces(list: readonly Buffer[], isWhole: boolean): Script {
  return async (exchange) => {
    if (isWhole) return raw(200, {}, list)(exchange);
    exchange.begin();
    for (const piece of list) if ((await exchange.push(piece)) === "left") return;
    exchange.cut();
  };
}

interface Expected {
  readonly tokens: readonly [input: number, output: number];
  readonly isComplete: boolean;
  readonly isCapped: boolean;
  readonly text: string;
}

/** Counts what arrived as docs/inference.md describes it. Undefined if no event arrived that reaches the client. */
function expectedFor(api: (typeof apis)[number], sent: string, cap: number): Expected | undefined {
  const events = dataOf(sent.slice(0, sent.lastIndexOf("\n\n") + 2))
    .filter((data) => data !== "[DONE]")
    .map((data): Any => JSON.parse(data));
  if (events.length === 0) return undefined;
  const maxChunks = cap + Math.ceil(cap / 8) + 32;
  let [chunks, bytes] = [0, 0];
  let text = "";
  for (const event of events) {
    for (const said of api.textOf(event)) {
      chunks++;
      bytes += Buffer.byteLength(said);
      const isName = event.item !== undefined || event.content_block !== undefined;
      if (!isName) text += said;
    }
    const isCapped = chunks > maxChunks || bytes > 64 * maxChunks;
    if (isCapped) return { tokens: [promptTokens, cap], isComplete: true, isCapped, text };
  }
  const last = events.at(-1);
  const isComplete = api.ends.some((type) => type === last.type);
  const reported = events.map(api.usageOf).findLast((usage) => usage?.output_tokens !== undefined);
  const isFinal = isComplete || last.type === "message_delta";
  const isCredible = isFinal && reported?.input_tokens < 1e6 && reported?.output_tokens <= cap;
  const counted = Math.min(Math.max(chunks, Math.ceil(bytes / 4)), cap);
  const tokens = isCredible
    ? ([reported.input_tokens, reported.output_tokens] as const)
    : ([promptTokens, counted] as const);
  return { tokens, isComplete, isCapped: false, text };
}
