/** Workers that have the Responses API themselves: what they get, and what clients get of their answers. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { createRandom } from "../../../../bench/soak/random.ts";
import { randomJunk } from "../completions/random-choices.ts";
import { eventOf } from "../networks/chat-events.ts";
import { raw, usageOf, workerSecret } from "../networks/worker-scripts.ts";
import type { Script } from "../networks/scripted-worker.ts";
import { model, tokenMilli, type Answer } from "../chat/gateway.ts";
import { assertEvents, assertResponse } from "./check-stream.ts";
import {
  callDelta,
  deltas,
  eventsOf,
  networks,
  startResponses,
  type Event,
  type ResponsesGateway,
} from "./gateway.ts";

const inTime = { timeout: 60_000 };
const [, [, native]] = networks;
const edit = { type: "function", name: "edit", parameters: { type: "object" } };
const begin = { id: "call_1", name: "edit" };
const usage = { input_tokens: 5, output_tokens: 2 };

let gateway: ResponsesGateway;
before(async () => {
  gateway = await startResponses({ network: native });
});
after(() => gateway[Symbol.asyncDispose]());

/** Streams these events, with those that begin an answer before them. */
function sending(...events: readonly object[]): Script {
  const response = { id: "resp_of_the_worker", status: "in_progress", output: [] };
  return raw(
    200,
    {},
    [{ type: "response.created", response }, ...events].map((one) => eventOf(one)),
  );
}

function completed(output: readonly object[], more: object = {}): object {
  const response = { id: "resp_of_the_worker", status: "completed", output, usage, ...more };
  return { type: "response.completed", response };
}

async function sentFor(members: object): Promise<{ body: Event; answer: Answer }> {
  const answer = await gateway.create(members);
  assert.equal(answer.status, 200, answer.text);
  assert.equal(gateway.worker.received.at(-1)?.path, "/v1/responses");
  return { body: gateway.lastBody(), answer };
}

describe("a worker with the Responses API gets", inTime, () => {
  it("the body of the client, without what is named as ignored", async () => {
    const input = [
      { type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }], phase: "x" },
    ];
    const known = {
      model,
      input,
      instructions: "Short.",
      tools: [{ ...edit, x: 1 }],
      tool_choice: "auto",
      reasoning: { effort: "low", summary: "auto" },
      text: { verbosity: "low" },
      include: ["reasoning.encrypted_content"],
      prompt_cache_key: "k",
      max_output_tokens: 20,
      temperature: 0.5,
    };
    const { body, answer } = await sentFor({
      ...known,
      tools: [...known.tools, { type: "web_search" }],
      client_metadata: { a: "b" },
      chat_template: "x",
      store: true,
      background: false,
    });
    assert.deepEqual(body, { ...known, stream: false, store: false });
    const ignored = answer.headers["x-sluice-ignored"];
    assert.equal(ignored, "tools.web_search, client_metadata, chat_template, store");
  });

  it("no tools and no choice of one if it may get none of them", async () => {
    const { body } = await sentFor({ tools: [{ type: "web_search" }], tool_choice: "auto" });
    assert.deepEqual(body, { model, input: "Hi", stream: false, store: false });
  });

  it("no parameters that the network does not pass", async () => {
    await using own = await startResponses({ network: "speaks: [responses]" });
    const { headers } = await own.create({ temperature: 0.5, reasoning: { effort: "low" } });
    assert.equal(headers["x-sluice-ignored"], "temperature, reasoning.effort");
    assert.deepEqual(own.lastBody(), {
      model,
      input: "Hi",
      reasoning: {},
      stream: false,
      store: false,
    });
    assert.equal((await own.create({ tools: [edit] })).status, 400);
    const said = { role: "user", content: "Hi" };
    const thought = { type: "reasoning", summary: [], encrypted_content: "of the worker" };
    const second = await own.create({ input: [said, thought] });
    assert.equal(second.headers["x-sluice-ignored"], "input.reasoning");
    assert.deepEqual(own.lastBody().input, [said]);
    const { body: passed } = await sentFor({ input: [said, thought] });
    assert.deepEqual(passed.input, [said, thought]);
  });

  it("no such parameters beside many unknown members", async () => {
    await using own = await startResponses({ network: "speaks: [responses]" });
    const unknown = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`x${at}`, at]));
    const withheld = { temperature: 2, reasoning: { effort: "high" } };
    const { headers } = await own.create({ ...unknown, ...withheld });
    assert.deepEqual(own.lastBody(), {
      model,
      input: "Hi",
      reasoning: {},
      stream: false,
      store: false,
    });
    assert.match(String(headers["x-sluice-ignored"]), /x14, other, temperature, reasoning.effort$/);
  });

  it("nothing that is refused", async () => {
    const earlier = gateway.worker.received.length;
    for (const members of [
      { previous_response_id: "resp_1" },
      { input: [{ type: "item_reference", id: "x" }] },
      { background: true },
    ]) {
      assert.equal((await gateway.create(members)).status, 400);
    }
    assert.equal(gateway.worker.received.length, earlier);
  });
});

describe("the client gets", inTime, () => {
  const annotated = {
    type: "message",
    id: "msg_w",
    role: "assistant",
    status: "completed",
    content: [
      { type: "output_text", text: "Hi", annotations: [{ type: "url_citation", url: "u" }] },
    ],
  };

  it("the items of an answer in one piece as the worker wrote them, in a response of the gateway", async () => {
    const document = { ...(completed([annotated]) as Event).response, model: "of_the_worker" };
    gateway.worker.script(raw(200, {}, [JSON.stringify(document)]));
    const { json, text } = await gateway.create();
    assertResponse(json);
    assert.deepEqual([json.output, json.model, json.status], [[annotated], model, "completed"]);
    assert.equal(json.usage.usedCUMilli, 7 * tokenMilli);
    assert.doesNotMatch(text, /of_the_worker/);
  });

  it("events that chat completions do not have, with the numbers of the gateway", async () => {
    const place = { item_id: "msg_w", output_index: 0 };
    const search = { type: "web_search_call", id: "ws_1", status: "completed" };
    gateway.worker.script(
      sending(
        { type: "response.web_search_call.searching", item_id: "ws_1", sequence_number: 40 },
        { type: "response.output_text.annotation.added", ...place, annotation: { url: "u" } },
        { type: "keepalive" },
        completed([search, annotated]),
      ),
    );
    const events = await gateway.events();
    assert.deepEqual(
      events.map(({ type }) => type.slice("response.".length)),
      [
        "created",
        "in_progress",
        "web_search_call.searching",
        "output_text.annotation.added",
        "completed",
      ],
    );
    assert.deepEqual(events[3].annotation, { url: "u" });
    assert.deepEqual(events[4].response.output, [search, annotated]);
    assert.doesNotMatch(JSON.stringify(events), /of_the_worker/);
  });

  it("an incomplete response if the worker says so, whatever the event is called", async () => {
    const cut = { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } };
    for (const reason of ["max_output_tokens", "content_filter"]) {
      gateway.worker.script(
        sending(completed([], { ...cut, incomplete_details: { reason } })),
        raw(200, {}, [
          JSON.stringify({ output: [], usage, ...cut, incomplete_details: { reason } }),
        ]),
      );
      const streamed = (await gateway.events()).at(-1);
      assert.equal(streamed.type, "response.incomplete");
      assert.deepEqual(streamed.response.incomplete_details, { reason });
      const { json } = await gateway.create();
      assert.deepEqual([json.status, json.incomplete_details], ["incomplete", { reason }]);
    }
  });

  it("all of the many short items of a short answer", async () => {
    const list = Array.from({ length: 36 }, (_, at) =>
      at % 2 === 0 ? { content: "x" } : { reasoning_content: "x" },
    );
    gateway.worker.script(deltas(list, "stop", usageOf(5, 5)));
    const { status, output } = assertEvents(await gateway.events({ max_output_tokens: 5 }));
    assert.deepEqual([status, output.length], ["completed", 36]);
  });

  it("closed items if the worker writes more than was requested", async () => {
    const endless = Array.from({ length: 400 }, () => "x");
    const answers = [
      endless.map((content) => ({ content })),
      [{ content: "I edit." }, ...endless.map((reasoning_content) => ({ reasoning_content }))],
      [
        { reasoning_content: "hm" },
        callDelta(0, '{"a":"', begin),
        ...endless.map((x) => callDelta(0, x)),
      ],
    ];
    for (const list of answers) {
      gateway.worker.script(deltas(list, "stop", usageOf(5, 400)));
      const response = assertEvents(
        await gateway.events({ tools: [edit], max_output_tokens: 100 }),
      );
      assert.deepEqual(response.incomplete_details, { reason: "max_output_tokens" });
      const { type, status } = response.output.at(-1);
      assert.equal(status, type === "reasoning" ? undefined : "incomplete");
      assert.equal(response.usage.output_tokens, 100);
    }
  });

  it("closed items if several are open", async () => {
    const item = (id: string): object => ({
      type: "function_call",
      id,
      call_id: `c${id}`,
      name: "edit",
    });
    const delta = (item_id: string): object => {
      return { type: "response.function_call_arguments.delta", item_id, delta: "x" };
    };
    const added = ["a", "b"].map((id, output_index) => {
      return { type: "response.output_item.added", output_index, item: item(id) };
    });
    const mixed = Array.from({ length: 400 }, (_, at) => delta(at % 2 === 0 ? "a" : "b"));
    gateway.worker.script(sending(...added, ...mixed));
    const events = await gateway.events({ tools: [edit], max_output_tokens: 100 });
    const { output } = events.at(-1).response;
    const written = (id: string): string =>
      events.flatMap((one) => (one.item_id === id && one.delta ? [one.delta] : [])).join("");
    assert.deepEqual(
      output.map((one: Event) => [one.id, one.call_id, one.arguments, one.status]),
      ["a", "b"].map((id) => [id, `c${id}`, written(id), "incomplete"]),
    );
    assert.ok(written("a").length > 40);
  });
});

describe("the reservation for a worker with the Responses API", inTime, () => {
  const image = { type: "input_image", image_url: `data:image/png;base64,${"A".repeat(50_000)}` };
  const asUser = (...content: object[]): object => ({ input: [{ role: "user", content }] });

  it("covers what the translation drops, but not the bytes of images", async () => {
    await using own = await startResponses({
      network: `${native}, imageTokens: 1000`,
      account: { cuLimit24hMilli: 5000 * tokenMilli },
    });
    const statusOf = async (members: object): Promise<number> =>
      (await own.create({ max_output_tokens: 10, ...members })).status;
    const sealed = { type: "reasoning", summary: [], encrypted_content: "x".repeat(6000) };
    const text = { role: "user", content: "Hi" };
    assert.equal(await statusOf({ input: [sealed, text] }), 429);
    assert.equal(await statusOf({ input: [{ ...text, x: "x".repeat(6000) }] }), 429);
    assert.equal(await statusOf(asUser(image)), 200);
    // A part that looks like an image at another place counts as text.
    assert.equal(await statusOf({ ...asUser(image), tools: [{ ...edit, x: image }] }), 429);
    const odd = { type: { toString: 1 }, image_url: "x" };
    assert.equal(await statusOf({ ...asUser(image), tools: [{ ...edit, x: odd }] }), 200);
  });
});

for (const [kind, network] of networks) {
  it(`the reservation covers instructions, tools and calls (${kind})`, inTime, async () => {
    const members = {
      instructions: "x".repeat(1000),
      tools: [{ type: "function", name: "edit", description: "y".repeat(1000) }],
      text: { format: { type: "json_schema", name: "z", schema: { title: "z".repeat(1000) } } },
      input: [{ type: "function_call", call_id: "c", name: "edit", arguments: "w".repeat(1000) }],
      max_output_tokens: 10,
    };
    await using own = await startResponses({ network });
    for (const [tokens, status] of [
      [4000, 429],
      [5000, 200],
    ] as const) {
      const { key } = await own.gateway.issue({ cuLimit24hMilli: tokens * tokenMilli });
      assert.equal((await own.create(members, { key })).status, status);
    }
  });
}

describe("a hostile worker with the Responses API", inTime, () => {
  const open = {
    type: "response.output_item.added",
    output_index: 0,
    item: { type: "message", id: "m", content: [] },
  };
  const delta = { type: "response.output_text.delta", item_id: "m", delta: "12345678" };
  const done = { type: "response.output_text.done", item_id: "m", text: "12345678" };
  const content = [{ type: "output_text", text: "12345678" }];
  const itemDone = { type: "response.output_item.done", item: { ...open.item, content } };
  const failures: readonly (readonly [name: string, script: Script, written: number])[] = [
    ["an error", sending(open, delta, { type: "error", message: workerSecret }), 2],
    [
      "a failure with its usage",
      sending(open, delta, {
        type: "response.failed",
        response: {
          status: "failed",
          error: { message: workerSecret },
          usage: { ...usage, output_tokens: 1 },
        },
      }),
      1,
    ],
    ["garbage", raw(200, {}, [eventOf(open), eventOf(delta), "data: {]\n\n"]), 2],
    ["an event without a type", sending(open, delta, { delta: "x" }), 2],
    ["an end without a response", sending(open, delta, { type: "response.completed" }), 2],
    ["an output of another shape", sending(open, delta, completed(["x" as unknown as object])), 2],
    ["no end", sending(open, delta), 2],
    ["no pieces of its text", sending(open, done, itemDone), 2],
    ["a text and its repetitions", sending(open, delta, done, itemDone), 2],
    ["pieces of one of two texts", sending(open, delta, itemDone, open, done, itemDone), 4],
    ["deep JSON", raw(200, {}, [eventOf(open), eventOf(delta), `data: ${"[".repeat(9e5)}\n\n`]), 2],
    ["an event without end", raw(200, {}, [eventOf(open), eventOf(delta), "x".repeat(2e6)]), 2],
  ];
  for (const [name, script, written] of failures) {
    it(`sends ${name}: the response fails, and what was written is charged`, async () => {
      const earlier = gateway.charges().length;
      gateway.worker.script(script);
      const { text } = await gateway.create({ stream: true });
      assert.ok(!text.includes(workerSecret));
      const { type, response } = eventsOf(text).at(-1);
      assert.equal(type, "response.failed");
      assertResponse(response);
      assert.equal(response.error.message, "the model could not answer because of a server error");
      const [row, ...more] = (await gateway.charged(earlier + 1)).slice(earlier);
      assert.deepEqual([row?.outputTokens, row?.outcome, more], [written, "upstreamFailed", []]);
      assert.equal((await gateway.create()).status, 200);
    });
  }

  it("sends an invalid answer in one piece: the client gets 503, and nothing is charged", async () => {
    const wrong = [{}, [], { status: "failed", output: [], error: { message: workerSecret } }];
    for (const document of [...wrong, { status: "completed", output: "x" }]) {
      const earlier = gateway.charges().length;
      gateway.worker.script(raw(200, {}, [JSON.stringify(document)]));
      const { status, text } = await gateway.create();
      assert.deepEqual([status, text.includes(workerSecret)], [503, false]);
      // The next answer keeps the worker available, and is charged.
      assert.equal((await gateway.create()).status, 200);
      assert.equal(gateway.charges().length, earlier + 1);
    }
  });

  it("opens more items than a model writes: the response fails, and its usage is charged", async () => {
    const items = Array.from({ length: 600 }, (_, at) => ({
      ...open,
      item: { ...open.item, id: `${at}` },
    }));
    const large = [1, 2, 3].map((id) => ({ ...open, item: { id: `${id}`, x: "x".repeat(9e5) } }));
    for (const opened of [items, large]) {
      gateway.worker.script(sending(...opened, completed([])));
      const { type, response } = (await gateway.events()).at(-1);
      assert.deepEqual([type, response.output], ["response.failed", []]);
      assert.equal(response.usage.usedCUMilli, 7 * tokenMilli);
    }
  });

  it("writes items that cannot be closed: they are left out at the limit", async () => {
    const odd = [
      { type: "function_call", id: "1", call_id: { toString: 1 }, name: "edit" },
      { type: "unknown", id: "2" },
      { type: "__proto__", id: "3" },
      { id: "4" },
    ];
    const added = odd.map((item) => ({ ...open, item }));
    gateway.worker.script(sending(...added, open, ...Array.from({ length: 400 }, () => delta)));
    const { response } = (await gateway.events({ max_output_tokens: 10 })).at(-1);
    assert.deepEqual([response.status, response.output.length], ["incomplete", 1]);
  });

  it("repeats text with the end of a part: none of it is kept", async () => {
    const repeated = { ...delta, type: "response.output_text.done", delta: "x".repeat(100_000) };
    gateway.worker.script(sending(open, delta, delta, repeated, repeated));
    const { response } = (await gateway.events({ max_output_tokens: 10 })).at(-1);
    assert.equal(response.status, "incomplete");
    assert.match(response.output[0].content[0].text, /^(?:12345678)+$/);
  });

  it("writes a name of an event with a line break: the event is dropped", async () => {
    const evil = { type: "response.x\ndata: evil", delta: "x" };
    gateway.worker.script(sending(evil, { ...evil, type: "evil" }, completed([])));
    const { text } = await gateway.create({ stream: true });
    assert.doesNotMatch(text, /evil/);
  });

  it("sends events of any shape: the stream has one end, and the next request is served", async () => {
    const seed = Date.now() | 0;
    const random = createRandom(seed);
    const types = [open, delta, completed([])].map((one) => (one as Event).type as string);
    for (let count = 0; count < 100; count++) {
      const events = Array.from({ length: random.int(8) }, () => {
        const junk = randomJunk(random);
        const isObject = typeof junk === "object" && junk !== null;
        return { ...(isObject ? junk : { item: junk }), type: random.pick(types), item_id: "m" };
      });
      gateway.worker.script(sending(...events, completed([])));
      const answer = await gateway.create({ stream: true });
      const ends = answer.text.match(/^event: response\.(?:completed|incomplete|failed)$/gm);
      assert.equal(ends?.length, 1, `seed ${seed}: ${answer.text}`);
      eventsOf(answer.text);
    }
    assert.equal((await gateway.create()).status, 200);
  });
});
