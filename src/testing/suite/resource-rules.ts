/** The rules that a plugin frees what it has opened: timers and sockets when it stops, and memory over many reloads. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Clock, Host, Plugin } from "../../plugin.ts";
import {
  allKinds,
  eventually,
  openFor,
  within,
  type Rule,
  type Subject,
  type SubjectGateway,
} from "./subject.ts";

/** Factor for `patienceMs` where idle connections and time limits must end first, which takes seconds. */
const slowFactor = 3;

export const freesRule: Rule = {
  name: "frees",
  kinds: allKinds,
  async check(subject) {
    const { patienceMs } = subject;
    const before = countTypes(process.getActiveResourcesInfo());
    const listenersBefore = processListeners();
    const left = await timersLeft(subject);
    const problems = left > 0 ? [`${left} timers of \`host.clock\` still run after the stop`] : [];
    const listeners = processListeners() - listenersBefore;
    if (listeners > 0) problems.push(`${listeners} listeners of \`process\` remain after the stop`);
    if (globalThis.fetch !== originalFetch) {
      problems.push("the global `fetch` was replaced, which all plugins share");
    }
    const remaining = (): string[] => {
      const now = countTypes(process.getActiveResourcesInfo());
      return [...now].flatMap(([type, count]) => {
        const more = count - (before.get(type) ?? 0);
        return more > 0 ? [`${more} ${type}`] : [];
      });
    };
    if (!(await eventually(() => remaining().length === 0, patienceMs * slowFactor))) {
      problems.push(`still active after the stop: ${remaining().join(", ")}`);
    }
    return problems;
  },
};

const originalFetch = globalThis.fetch;

function processListeners(): number {
  return process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0);
}

async function timersLeft(subject: Subject): Promise<number> {
  const running = new Set<object>();
  const plugin = withHost(subject.plugin, (host) =>
    withMembers(host, { clock: countingClock(host.clock, running) }),
  );
  const gateway = await openFor({ ...subject, plugin });
  try {
    if (plugin.kind === "step" || plugin.kind === "surface") await oneRequest(gateway, subject);
  } finally {
    await gateway[Symbol.asyncDispose]();
  }
  return running.size;
}

export function withMembers(host: Host, members: Partial<Host>): Host {
  return new Proxy(host, {
    get: (target, name): unknown => Reflect.get(name in members ? members : target, name),
  });
}

export function countingClock(clock: Clock, running: Set<object>): Clock {
  return {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    every: (ms, task) => keptIn(running, clock.every(ms, task)),
    after(ms, task) {
      const handle = keptIn(
        running,
        clock.after(ms, () => {
          running.delete(handle);
          task();
        }),
      );
      return handle;
    },
  };
}

export function keptIn(open: Set<object>, handle: Disposable): Disposable {
  const kept = {
    [Symbol.dispose]() {
      open.delete(kept);
      handle[Symbol.dispose]();
    },
  };
  open.add(kept);
  return kept;
}

async function oneRequest(gateway: SubjectGateway, subject: Subject): Promise<void> {
  const running = gateway.begin(subject.example.request ?? {});
  if ((await within(running.answer, subject.patienceMs)) === undefined) running.leave();
}

function countTypes(types: readonly string[]): Map<string, number> {
  return new Map([...Map.groupBy(types, (type) => type)].map(([type, all]) => [type, all.length]));
}

const reloads = 1_000;
/** Reloads before the first measurement, in which code is compiled and caches fill. */
const warmUp = 200;
/** Growth of the heap per reload above which memory is leaked. The gateway itself grows and shrinks by less. */
const maxBytesPerReload = 1_000;
/** Number of stopped instances that may still be in memory, for example the last ones. */
const maxInstances = 20;

export const heapRule: Rule = {
  name: "heap",
  kinds: allKinds,
  async check(subject) {
    const hosts: WeakRef<Host>[] = [];
    const plugin = withHost(subject.plugin, (host) => {
      hosts.push(new WeakRef(host));
      return host;
    });
    await using gateway = await openFor({ ...subject, plugin });
    if (plugin.kind === "step" || plugin.kind === "surface") await oneRequest(gateway, subject);
    const restart = async (times: number): Promise<number> => {
      for (let count = 0; count < times; count++) await gateway.restart(plugin);
      // A weak reference keeps its target until the turn of the event loop ends.
      await new Promise(setImmediate);
      gateway.forgetLines();
      return usedBytes();
    };
    const [start, middle, end] = [
      await restart(warmUp),
      await restart(reloads / 2),
      await restart(reloads / 2),
    ];
    // A cache grows once. A leak grows in both halves, and remains when timers have ended.
    const isLeak = (now: number): boolean =>
      Math.min(middle - start, now - middle) / (reloads / 2) > maxBytesPerReload;
    const isFreed = (): boolean => !isLeak(usedBytes());
    const problems: string[] = [];
    if (isLeak(end) && !(await eventually(isFreed, subject.patienceMs * slowFactor))) {
      const growth = Math.round((end - start) / reloads);
      problems.push(`the heap grows by ${growth} bytes per reload, over ${reloads} reloads`);
    }
    const kept = hosts.filter((host) => host.deref() !== undefined).length;
    if (kept > maxInstances) {
      problems.push(`${kept} of ${hosts.length} stopped instances still hold their \`host\``);
    }
    return problems;
  },
};

export function withHost(plugin: Plugin, change: (host: Host) => Host): Plugin {
  const start = (options: never, host: Host, context: never): unknown =>
    plugin.start(options, change(host), context);
  // The function has the signature of `start` of every kind.
  return { ...plugin, start } as Plugin;
}

let collect: (() => void) | undefined;

function usedBytes(): number {
  if (collect === undefined) {
    setFlagsFromString("--expose-gc");
    // V8 adds the function `gc` to contexts that are created from now on.
    collect = runInNewContext("gc") as () => void;
  }
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
