/** The rules that a plugin frees what it has opened: timers and sockets when it stops, and memory over many reloads. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Host, Plugin } from "../../plugin.ts";
import {
  allKinds,
  eventually,
  openFor,
  within,
  type Rule,
  type Subject,
  type SubjectGateway,
} from "./subject.ts";

/** Connections that wait to be used again close after some seconds. */
const idleConnections = 3;

export const freesRule: Rule = {
  name: "frees",
  kinds: allKinds,
  async check(subject) {
    const { patienceMs } = subject;
    const idle = await timersLeft(subject, withoutWork(subject.plugin));
    const before = tally(process.getActiveResourcesInfo());
    const left = await timersLeft(subject, subject.plugin);
    const problems =
      left > idle ? [`${left - idle} timers of \`host.clock\` still run after the stop`] : [];
    const remaining = (): string[] => {
      const now = tally(process.getActiveResourcesInfo());
      return [...now].flatMap(([type, count]) => {
        const more = count - (before.get(type) ?? 0);
        return more > 0 ? [`${more} ${type}`] : [];
      });
    };
    if (!(await eventually(() => remaining().length === 0, patienceMs * idleConnections))) {
      problems.push(`still active after the stop: ${remaining().join(", ")}`);
    }
    return problems;
  },
};

/** Starts the plugin, sends a request and stops it. Returns the number of timers that are left. */
async function timersLeft(subject: Subject, plugin: Plugin): Promise<number> {
  const gateway = await openFor({ ...subject, plugin });
  try {
    if (plugin.kind === "step" || plugin.kind === "surface") await oneRequest(gateway, subject);
  } finally {
    await gateway[Symbol.asyncDispose]();
  }
  return gateway.clock.pending;
}

async function oneRequest(gateway: SubjectGateway, subject: Subject): Promise<void> {
  const running = gateway.begin(subject.example.request ?? {});
  if ((await within(running.answer, subject.patienceMs)) === undefined) running.leave();
}

/** Returns a plugin with the same manifest that does nothing, to learn what the gateway itself leaves. */
function withoutWork(plugin: Plugin): Plugin {
  const { provides: _, ...rest } = { provides: undefined, ...plugin };
  const hooks = { answer: () => ({ status: 200 }), tools: [], service: {} };
  // The hooks have the members that every kind requires.
  return { ...rest, start: () => hooks } as Plugin;
}

function tally(types: readonly string[]): Map<string, number> {
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
    const plugin = recordingHosts(subject.plugin, hosts);
    await using gateway = await openFor({ ...subject, plugin });
    if (plugin.kind === "step" || plugin.kind === "surface") await oneRequest(gateway, subject);
    const restart = async (times: number): Promise<number> => {
      for (let count = 0; count < times; count++) await gateway.restart(plugin);
      // A weak reference keeps its target until the turn of the event loop ends.
      await new Promise(setImmediate);
      return usedBytes();
    };
    const [start, middle, end] = [
      await restart(warmUp),
      await restart(reloads / 2),
      await restart(reloads / 2),
    ];
    // What grows once is a cache. A leak grows in both halves.
    const growth = Math.min(middle - start, end - middle) / (reloads / 2);
    const problems =
      growth > maxBytesPerReload
        ? [`the heap grows by ${Math.round(growth)} bytes per reload, over ${reloads} reloads`]
        : [];
    const kept = hosts.filter((host) => host.deref() !== undefined).length;
    if (kept > maxInstances) {
      problems.push(`${kept} of ${hosts.length} stopped instances still hold their \`host\``);
    }
    return problems;
  },
};

/** Returns the plugin with a `start` that records the host of each instance. */
function recordingHosts(plugin: Plugin, hosts: WeakRef<Host>[]): Plugin {
  const start = (options: never, host: Host, context: never): unknown => {
    hosts.push(new WeakRef(host));
    return plugin.start(options, host, context);
  };
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
