/**
 * The rule that a plugin works in a process with several threads (`server.threads`): it starts, answers and stops in each
 * of them, and shares what must be one for the process. The threads of the rule are three pipelines in one thread, which
 * share `host.threads`: the main thread, and two that serve. Each loads the module of the plugin for itself, as real
 * threads do, but they share the modules that it imports.
 */
import { inspect, isDeepStrictEqual } from "node:util";
import { MessageChannel } from "node:worker_threads";
import { joinThreads, MainThreads } from "../../gateway/threads/ports.ts";
import { serveThreadList } from "../../gateway/threads/thread-replicas.ts";
import type { LogLine, Plugin, Threads } from "../../plugin.ts";
import { messageOf } from "../../base/message-of.ts";
import { manualClock } from "../clock.ts";
import { keepingLog } from "../keeping-log.ts";
import type { MemoryPipeline } from "../memory-gateway.ts";
import { countingClock, keptIn, withHost, withMembers } from "./resource-rules.ts";
import {
  allKinds,
  notSettled,
  openFor,
  thrown,
  within,
  type Rule,
  type Subject,
  type SubjectGateway,
} from "./subject.ts";

const count = 2;
const uses = 20;
/** The first round opens what later rounds use again. */
const rounds = 3;

const arrivedCall = "suite: all messages have arrived";

const share =
  "share what must be one for the process through `host.threads`, or set `needsOneThread` in the manifest";

export const threadsRule: Rule = {
  name: "threads",
  kinds: allKinds,
  async check(subject) {
    const { plugin } = subject;
    if (plugin.needsOneThread === true) return [];
    if (plugin.kind === "service" && plugin.runsOnce === true) return [];
    return problemsOf(subject);
  },
};

/** The result of one request or call. Parts with random content cannot be compared, so the parts are separate texts. */
type Result = Readonly<Record<"result" | "body" | "slots", string>>;

/** Sends the request of the example, or uses the service as it does. Throws if that does not settle. */
async function use(gateway: SubjectGateway, subject: Subject): Promise<Result> {
  const { plugin, example, patienceMs } = subject;
  const isHandler = plugin.kind === "step" || plugin.kind === "surface";
  const result = isHandler
    ? gateway.begin(example.request ?? {}).answer.then((answer): Result => {
        const { status, code = "", body, slots } = answer;
        return { result: `${status} ${code}`.trim(), body, slots: inspect(slots, { depth: 6 }) };
      })
    : used(gateway, subject);
  const settled = await within(result, patienceMs);
  if (settled === undefined)
    throw new Error(notSettled("threads", patienceMs, "a request or call"));
  return settled;
}

async function used(gateway: SubjectGateway, { plugin, example }: Subject): Promise<Result> {
  const service = gateway.generation.services.get(plugin.name)?.service;
  let result: unknown;
  try {
    // The author of the example knows the type of the service.
    result = await example.use?.(service as never);
  } catch (error) {
    result = messageOf(error);
  }
  return { result: inspect(result, { depth: 6 }), body: "", slots: "" };
}

async function differences(found: readonly Result[], subject: Subject): Promise<string[]> {
  const alone = async (): Promise<Result[]> => {
    await using gateway = await openFor({ ...subject, plugin: await ownPlugin(subject) });
    return await results([gateway], subject);
  };
  const expected = await alone();
  if (isDeepStrictEqual(expected, found)) return [];
  const repeated = await alone();
  for (const part of ["result", "body", "slots"] as const) {
    // A part that differs from run to run cannot be compared.
    if (expected.some((each, at) => each[part] !== repeated[at]?.[part])) continue;
    const at = expected.findIndex((each, index) => each[part] !== found[index]?.[part]);
    if (at === -1) continue;
    const [text, wanted] = [found[at], expected[at]].map((each) => shortened(each?.[part]));
    return [
      `${part} ${at + 1} is ${text} instead of ${wanted} if two threads take turns; ${share}`,
    ];
  }
  return [];
}

async function results(gateways: readonly SubjectGateway[], subject: Subject): Promise<Result[]> {
  const all: Result[] = [];
  while (all.length < uses) {
    for (const gateway of gateways) all.push(await use(gateway, subject));
  }
  return all;
}

function shortened(text = ""): string {
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}

/** Returns the plugin of a thread, whose module has its own variables. */
async function ownPlugin({ plugin, loadAgain }: Subject): Promise<Plugin> {
  return (await loadAgain?.()) ?? plugin;
}

async function problemsOf(subject: Subject): Promise<string[]> {
  const timers = new Set<object>();
  const receivers = new Receivers();
  const load = async (): Promise<Plugin> =>
    withHost(await ownPlugin(subject), (host) =>
      withMembers(host, {
        clock: countingClock(host.clock, timers),
        threads: host.threads && receivers.counting(host.threads),
      }),
    );
  const problems: string[] = [];
  const open: number[] = [];
  {
    await using threads = await openThreads(subject, load);
    problems.push(...(await differences(await results(threads.serving, subject), subject)));
    for (let round = 0; round < rounds; round++) {
      for (const gateway of threads.serving) await use(gateway, subject);
      await threads.delivered();
      for (const [gateway, plugin] of threads.all) await gateway.restart(plugin);
      open.push(receivers.size);
    }
    problems.push(...threads.problems());
  }
  const [, before = 0, after = 0] = open;
  if (after > before) {
    problems.push(`a reload leaves ${after - before} receivers of \`host.threads\` behind`);
  }
  const parts = [
    [timers.size, "timers of `host.clock`"],
    [receivers.size, "receivers of `host.threads`"],
  ] as const;
  for (const [left, what] of parts) {
    if (left > 0) problems.push(`${left} ${what} remain after the stop of all threads`);
  }
  for (const topic of receivers.missing) {
    problems.push(`the plugin sends "${topic}" to threads that do not receive it`);
  }
  return problems;
}

class Receivers {
  readonly #open = new Set<object>();
  readonly #topics = new Map<string, Set<object>>();
  readonly missing = new Set<string>();

  get size(): number {
    return this.#open.size;
  }

  counting(threads: Threads): Threads {
    const { index, slots } = threads;
    const topicIn = (thread: number, topic: string): Set<object> => {
      const name = `${thread} ${topic}`;
      const found = this.#topics.get(name) ?? new Set();
      this.#topics.set(name, found);
      return found;
    };
    const others = Array.from({ length: slots }, (_, at) => at).filter((at) => at !== index);
    return {
      ...threads,
      serve: (name, answer) => keptIn(this.#open, threads.serve(name, answer)),
      receive: (topic, receive) =>
        keptIn(this.#open, keptIn(topicIn(index, topic), threads.receive(topic, receive))),
      onEnded: (ended) => keptIn(this.#open, threads.onEnded(ended)),
      send: (topic, value, to) => {
        const receiving = to === undefined ? others : [to];
        if (receiving.every((thread) => topicIn(thread, topic).size === 0)) this.missing.add(topic);
        threads.send(topic, value, to);
      },
    };
  }
}

interface SubjectThreads extends AsyncDisposable {
  readonly all: ReadonlyMap<SubjectGateway, Plugin>;
  readonly serving: readonly SubjectGateway[];
  delivered(): Promise<unknown>;
  problems(): string[];
}

async function openThreads(subject: Subject, load: () => Promise<Plugin>): Promise<SubjectThreads> {
  const failures = new Set<string>();
  const failed: LogLine = (fields, text) =>
    void failures.add(`${text}: ${"err" in fields ? messageOf(fields.err) : ""}`);
  const deps = { clock: manualClock(), log: { ...keepingLog([]), error: failed } };
  const main = new MainThreads(count, deps);
  await using stack = new AsyncDisposableStack();
  stack.use(serveThreadList(main));
  const all = new Map<SubjectGateway, Plugin>();
  const open = async (
    thread: Parameters<typeof openFor>[2],
    more?: Parameters<typeof openFor>[1],
  ): Promise<SubjectGateway> => {
    const plugin = await load();
    const opened = stack.use(await openFor({ ...subject, plugin }, more, thread));
    all.set(opened, plugin);
    return opened;
  };
  const gateway = await open({ threads: main });
  const { config, runsOnce } = gateway.generation;
  // They have one data folder.
  const more = ({ file, ...others }: MemoryPipeline): MemoryPipeline => ({
    ...others,
    file: { ...file, store: config.store },
  });
  const serving: SubjectGateway[] = [];
  const ends: Threads[] = [main];
  for (let index = 1; index <= count; index++) {
    const { port1, port2 } = new MessageChannel();
    main.connect(index, { messages: port1 });
    stack.defer(() => main.disconnect(index));
    const threads = joinThreads({ index, count }, port2, (...given) => main.memory(...given), deps);
    ends.push(threads);
    serving.push(await open({ threads, without: runsOnce }, more));
  }
  for (const threads of ends) threads.serve(arrivedCall, () => {});
  const running = stack.move();
  return {
    all,
    serving,
    // Messages keep their order, and this one is the last.
    delivered: () =>
      Promise.all(
        ends.flatMap((from) =>
          ends.filter((to) => to !== from).map((to) => from.call(arrivedCall, undefined, to.index)),
        ),
      ),
    problems: () => [
      ...[...all.keys()].flatMap((each, index) => thrown(each.lines, subject, `thread ${index}`)),
      ...failures,
    ],
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}
