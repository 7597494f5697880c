/** Small plugins that each break one rule of the contract suite. */
import { setInterval } from "node:timers";
import {
  defineService,
  defineStep,
  defineSurface,
  defineTools,
  type Plugin,
} from "sluice-gateway/plugin";
import type { Tool } from "sluice-gateway/services";
import type { StepExample } from "sluice-gateway/testing";

export interface BadPlugin {
  readonly rule: string;
  /** A text of the problem that the rule reports. */
  readonly problem: RegExp;
  readonly plugin: Plugin;
  readonly example?: StepExample;
}

const about = { contract: "^1", description: "Breaks a rule." };
const leaked: unknown[] = [];
/** Ends what the plugin `leaking-timer` has left running. */
export const leftovers: Disposable[] = [];

let isOver = false;
leftovers.push({ [Symbol.dispose]: () => void (isOver = true) });

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise(setImmediate);
}

function tool(name: string, call: Tool<{ readonly name?: string }>["call"]): Tool<never> {
  const inputSchema = { type: "object", properties: { name: { type: "string" } } };
  const description = "Breaks a rule.";
  return { name, description, inputSchema, price: 0, capability: undefined, call };
}

export const badPlugins: readonly BadPlugin[] = [
  {
    rule: "manifest",
    problem: /`contract` is missing/,
    plugin: defineStep({ name: "no-contract", description: "Names none.", start: () => ({}) }),
  },
  {
    rule: "starts",
    problem: /SLUICE_PLUGIN_START.*no luck/,
    plugin: defineStep({
      ...about,
      name: "never-starts",
      start() {
        throw new Error("no luck");
      },
    }),
  },
  {
    rule: "options",
    problem: /options\.limit must have a `type`/,
    plugin: defineStep({
      ...about,
      name: "any-option",
      options: { type: "object", properties: { limit: {} }, additionalProperties: false },
      start: () => ({}),
    }),
  },
  {
    rule: "options",
    problem: /size: 0 is valid, but .*no room/,
    plugin: defineStep<{ readonly size?: number }>({
      ...about,
      name: "fragile-option",
      options: {
        type: "object",
        properties: { size: { type: "integer", minimum: 0 } },
        additionalProperties: false,
      },
      start({ size }) {
        if (size === 0) throw new Error("no room");
        return {};
      },
    }),
  },
  {
    rule: "operation",
    problem: /GET: answers: 900 is not a status/,
    plugin: defineSurface({
      ...about,
      name: "odd-operation",
      operation: () => ({ summary: "Odd", answers: { 900: { description: "Odd." } } }),
      start: () => ({ answer: () => ({ status: 200 }) }),
    }),
  },
  {
    rule: "settles",
    problem: /client gone at once: the exchange did not settle/,
    plugin: defineSurface({
      ...about,
      name: "deaf-surface",
      start() {
        let requests = 0;
        return {
          async answer() {
            requests++;
            if (requests > 1) await new Promise(() => {});
            return { status: 200 };
          },
        };
      },
    }),
  },
  {
    rule: "settles",
    problem: /^time-out: the exchange did not settle within 300 ms$/,
    plugin: defineSurface({
      ...about,
      name: "silent-surface",
      start: (_, { clock }) => ({
        async answer({ signal }) {
          let hasGivenUp = false;
          // It gives up after its time limit, but does not reply.
          using _limit = clock.after(30_000, () => (hasGivenUp = true));
          await turns(20);
          if (hasGivenUp && !signal.aborted) await new Promise(() => {});
          return { status: 200 };
        },
      }),
    }),
  },
  {
    rule: "settles",
    problem: /^time-out: a timer threw: too late$/,
    plugin: defineSurface({
      ...about,
      name: "throwing-timer",
      start: (_, { clock }) => ({
        async answer() {
          using _limit = clock.after(30_000, () => {
            throw new Error("too late");
          });
          await turns(20);
          return { status: 200 };
        },
      }),
    }),
  },
  {
    rule: "settles",
    problem: /^time-out: the exchange did not settle within 300 ms$/,
    plugin: defineSurface({
      ...about,
      name: "silent-socket",
      websocket: true,
      start: (_, { clock }) => ({
        async answer(x) {
          const connection = await x.accept({ protocol: undefined, messageBytes: 1_000 });
          const closed = Promise.withResolvers<void>();
          connection.onClose = () => closed.resolve();
          using _limit = clock.after(30_000, () => {
            // It removes the only function that ends the answer.
            connection.onClose = () => {};
            connection.close(1001, "too late");
          });
          await closed.promise;
          return undefined;
        },
      }),
    }),
  },
  {
    rule: "settles",
    problem: /broken stream: a settled hook failed: it never ends/,
    plugin: defineStep({
      ...about,
      name: "throwing-step",
      start: () => ({
        settled(_, outcome) {
          if (outcome !== "complete") throw new Error("it never ends");
        },
      }),
    }),
  },
  {
    rule: "settles",
    problem: /client gone: the exchange did not settle/,
    plugin: defineSurface({
      ...about,
      name: "deaf-socket",
      websocket: true,
      start: () => ({
        async answer(x) {
          const connection = await x.accept({ protocol: undefined, messageBytes: 1_000 });
          const closed = Promise.withResolvers<void>();
          // It only notices a client that closes the connection properly.
          connection.onClose = (code) => {
            if (code === 1000) closed.resolve();
          };
          await closed.promise;
          return undefined;
        },
      }),
    }),
  },
  {
    rule: "settles",
    problem: /messages: a plugin failed: it expects JSON/,
    plugin: defineSurface({
      ...about,
      name: "fragile-socket",
      websocket: true,
      start: () => ({
        async answer(x) {
          const connection = await x.accept({ protocol: undefined, messageBytes: 1_000 });
          const closed = Promise.withResolvers<void>();
          connection.onClose = () => closed.resolve();
          connection.onMessage = (data) => {
            if (data[0] !== 0x7b) throw new Error("it expects JSON");
          };
          await closed.promise;
          return undefined;
        },
      }),
    }),
  },
  {
    rule: "settles",
    problem: /reply: slow: the call did not settle/,
    plugin: defineTools({
      ...about,
      name: "deaf-tool",
      start: () => ({ tools: [tool("slow", () => new Promise(() => {}))] }),
    }),
  },
  {
    rule: "settles",
    problem: /reply: fragile: a tool failed .*no name/,
    example: { inputs: { fragile: { name: "" } } },
    plugin: defineTools({
      ...about,
      name: "fragile-tools",
      start: () => ({
        tools: [
          tool("fragile", ({ name }) => {
            if (name === "") throw new Error("no name");
            return { ok: true, value: {} };
          }),
        ],
      }),
    }),
  },
  {
    rule: "settles",
    problem: /`tools` returns new objects each time it is read/,
    plugin: defineTools({
      ...about,
      name: "restless-tools",
      start: () => ({
        get tools() {
          return [tool("restless", () => ({ ok: true, value: {} }))];
        },
      }),
    }),
  },
  {
    rule: "settles",
    problem: /use: the call did not settle/,
    example: { use: (service: { wait(): Promise<void> }) => service.wait() },
    plugin: defineService({
      ...about,
      name: "deaf-service",
      start: () => ({ service: { wait: () => new Promise<void>(() => {}) } }),
    }),
  },
  {
    rule: "settles",
    problem: /the service did not stop within/,
    plugin: defineService({
      ...about,
      name: "endless-service",
      start: () => ({ service: {}, stop: () => (isOver ? undefined : new Promise(() => {})) }),
    }),
  },
  {
    rule: "settles",
    problem: /ready: "service vague-service" is neither true nor a reason/,
    plugin: defineService({
      ...about,
      name: "vague-service",
      start: () => ({ service: {}, ready: () => false as never }),
    }),
  },
  {
    rule: "settles",
    problem: /reply: a plugin failed: .* returned the header "content-length"/,
    plugin: defineSurface({
      ...about,
      name: "copying-surface",
      start: () => ({
        answer: () => ({ status: 200, headers: ["content-length", "16"], body: "other" }),
      }),
    }),
  },
  {
    rule: "starts",
    problem: /unknown hook "responseHeader"; did you mean "responseHeaders"\?/,
    plugin: defineStep({
      ...about,
      name: "misspelled-step",
      start: () => ({ responseHeader() {}, requestHeaders() {} }),
    }),
  },
  {
    rule: "starts",
    problem: /^`stop` does not end$/,
    plugin: defineStep({
      ...about,
      name: "endless-step",
      start: () => ({ stop: () => (isOver ? undefined : new Promise(() => {})) }),
    }),
  },
  {
    rule: "frees",
    problem: /1 listeners of `process` remain/,
    plugin: defineStep({
      ...about,
      name: "listening-step",
      start() {
        const listener = (): void => {};
        process.on("SIGUSR2", listener);
        leftovers.push({ [Symbol.dispose]: () => void process.off("SIGUSR2", listener) });
        return {};
      },
    }),
  },
  {
    rule: "frees",
    problem: /the global `fetch` was replaced/,
    plugin: defineStep({
      ...about,
      name: "patching-step",
      start() {
        const { fetch } = globalThis;
        globalThis.fetch = (...given) => fetch(...given);
        return {};
      },
    }),
  },
  {
    rule: "chunks",
    problem: /changes if a chunk is overwritten/,
    plugin: defineStep<Record<string, never>, { chunk?: Uint8Array }>({
      ...about,
      name: "keeping-step",
      start: () => ({
        createState: () => ({}),
        responseChunk(_, chunk, state) {
          const last = state.chunk;
          state.chunk = chunk;
          return last ?? Buffer.from(chunk);
        },
      }),
    }),
  },
  {
    rule: "threads",
    problem: /^body 2 is 1 instead of 2 if two threads take turns; .*`needsOneThread`/,
    plugin: defineSurface({
      ...about,
      name: "counting-surface",
      start() {
        let requests = 0;
        return { answer: () => ({ status: 200, body: String(++requests) }) };
      },
    }),
  },
  {
    rule: "threads",
    problem: /^result 2 is 1 instead of 2/,
    example: { use: (service: { next(): number }) => service.next() },
    plugin: defineService({
      ...about,
      name: "counting-service",
      start() {
        let calls = 0;
        return { service: { next: () => ++calls } };
      },
    }),
  },
  {
    rule: "threads",
    problem:
      /^a reload leaves 3 receivers .*\n12 receivers .* remain after the stop of all threads$/,
    plugin: defineStep({
      ...about,
      name: "receiving-step",
      start(_, { threads }) {
        threads?.receive("x", () => {});
        return {};
      },
    }),
  },
  {
    rule: "threads",
    problem: /^the plugin sends "seen" to threads that do not receive it$/,
    plugin: defineStep({
      ...about,
      name: "unheard-step",
      start: (_, { threads }) => ({ requestHeaders: () => threads?.send("seen", 1) }),
    }),
  },
  {
    rule: "threads",
    problem: /SLUICE_PLUGIN_START.*not in thread 2/,
    plugin: defineStep({
      ...about,
      name: "fixed-step",
      start(_, { threads }) {
        if (threads?.index === 2) throw new Error("not in thread 2");
        return {};
      },
    }),
  },
  {
    rule: "threads",
    problem: /^a message of a thread failed: no such number$/,
    plugin: defineStep({
      ...about,
      name: "fragile-receiver",
      start(_, { threads }) {
        const receiving = threads?.receive("number", () => {
          throw new Error("no such number");
        });
        return {
          requestHeaders: () => threads?.send("number", 1),
          stop: () => receiving?.[Symbol.dispose](),
        };
      },
    }),
  },
  {
    rule: "frees",
    problem: /1 timers of `host\.clock`/,
    plugin: defineStep({
      ...about,
      name: "leaking-clock",
      start(_, host) {
        host.clock.every(1_000, () => {});
        return {};
      },
    }),
  },
  {
    rule: "frees",
    problem: /still active after the stop: 1 Timeout/,
    plugin: defineService({
      ...about,
      name: "leaking-timer",
      start() {
        const timer = setInterval(() => {}, 60_000);
        leftovers.push({ [Symbol.dispose]: () => clearInterval(timer) });
        return { service: {} };
      },
    }),
  },
  {
    rule: "heap",
    problem: /1\d{3} of 1\d{3} stopped instances still hold their `host`/,
    plugin: defineStep({
      ...about,
      name: "growing-step",
      start(_, host) {
        leaked.push({ host });
        return {};
      },
    }),
  },
  {
    rule: "heap",
    problem: /the heap grows by \d+ bytes per reload/,
    plugin: defineStep({
      ...about,
      name: "buffering-step",
      start() {
        leaked.push(Buffer.alloc(4_096));
        return {};
      },
    }),
  },
];
