/**
 * Every exchange settles, however it ends, and no hook throws. plugins/tools/settles-rule.ts has this rule for tools.
 */
import type { Exchange, Reply } from "../../plugin.ts";
import { messageOf } from "../../base/message-of.ts";
import { requestPath } from "../test-plugin.ts";
import type { RunningRequest } from "../memory-gateway.ts";
import { serviceProblems } from "./settles-service.ts";
import { webSocketProblems } from "./settles-websocket.ts";
import {
  notSettled,
  openFor,
  thrown,
  within,
  type Rule,
  type Subject,
  type SubjectGateway,
} from "./subject.ts";

/** One way in which an exchange ends: the behaviour of the surface below the step, and what happens to the exchange. */
interface Path {
  readonly name: string;
  readonly surface: (x: Exchange, entered: () => void, released: Promise<void>) => unknown;
  readonly act?: (gateway: SubjectGateway, running: RunningRequest, subject: Subject) => void;
}

const plain = { status: 200, headers: ["content-type", "text/plain"], body: "ok" };

async function streamTwo(x: Exchange): Promise<undefined> {
  const sink = await x.stream(200, ["content-type", "text/event-stream"]);
  sink.write(Buffer.from("data: 1\n\n"));
  sink.write(Buffer.from("data: 2\n\n"));
  await sink.end();
  return undefined;
}

async function breakOff(x: Exchange): Promise<undefined> {
  const sink = await x.stream(200, ["content-type", "text/event-stream"]);
  sink.write(Buffer.from("data: 1\n\n"));
  throw new Error("the stream of a test breaks off");
}

const pathsOfSteps: readonly Path[] = [
  { name: "reply", surface: () => plain },
  { name: "stream", surface: streamTwo },
  {
    name: "throw",
    surface: () => {
      throw new Error("the surface of a test throws");
    },
  },
  { name: "broken stream", surface: breakOff },
  { name: "time-out", surface: (): Reply => ({ status: 504, outcome: "timedOut" }) },
  {
    name: "client gone",
    async surface(x, entered) {
      const left = new Promise<void>((resolve) =>
        x.signal.addEventListener("abort", () => resolve()),
      );
      entered();
      await left;
      return plain;
    },
    act: (_, running) => running.leave(),
  },
  {
    name: "reload",
    async surface(_, entered, released) {
      entered();
      await released;
      return plain;
    },
    act: (gateway, _, { plugin }) => void gateway.restart(plugin),
  },
];

export const settlesRule: Rule = {
  name: "settles",
  kinds: ["step", "surface", "service"],
  check(subject) {
    const { plugin } = subject;
    if (plugin.kind === "step") return stepProblems(subject);
    if (plugin.kind === "service") return serviceProblems(subject);
    const isWebSocket = plugin.kind === "surface" && plugin.websocket === true;
    return isWebSocket ? webSocketProblems(subject) : surfaceProblems(subject);
  },
};

async function stepProblems(subject: Subject): Promise<string[]> {
  const { example, patienceMs } = subject;
  let enter: () => void = () => {};
  let release: () => void = () => {};
  let path: Path | undefined;
  let released = Promise.resolve();
  const surface = {
    answer: (x: Exchange) => path?.surface(x, enter, released) as Reply,
  };
  await using gateway = await openFor({ ...subject, example: { ...example, surface } });
  const problems: string[] = [];
  for (path of pathsOfSteps) {
    const entered = Promise.withResolvers<void>();
    const end = Promise.withResolvers<void>();
    [enter, release, released] = [entered.resolve, end.resolve, end.promise];
    const from = gateway.lines.length;
    const running = gateway.begin(example.request ?? {});
    // If the step replies itself, the request does not reach the surface.
    await within(Promise.race([entered.promise, running.answer]), patienceMs);
    path.act?.(gateway, running, subject);
    release();
    const isSettled = (await within(running.answer, patienceMs)) !== undefined;
    if (!isSettled) problems.push(notSettled(path.name, patienceMs));
    problems.push(...thrown(gateway.lines.slice(from), subject, path.name));
    if (!isSettled) break;
  }
  return problems;
}

async function surfaceProblems(subject: Subject): Promise<string[]> {
  const { plugin, example, patienceMs } = subject;
  await using gateway = await openFor(subject);
  const request = example.request ?? { path: requestPath(example.path ?? "/*") };
  const problems: string[] = [];
  // A way resolves to the message of an error that a timer has thrown.
  const ways: [string, (running: RunningRequest) => Promise<string | undefined> | void][] = [
    ["reply", () => {}],
    ["client gone at once", (running) => running.leave()],
    ["client gone in the answer", (running) => leaveAtFirstChunk(running)],
    ["reload", () => void gateway.restart(plugin)],
    ["time-out", () => passHours(gateway)],
  ];
  for (const [name, act] of ways) {
    const from = gateway.lines.length;
    const running = gateway.begin(request);
    const thrownByTimer = await act(running);
    if (thrownByTimer !== undefined) problems.push(`${name}: a timer threw: ${thrownByTimer}`);
    const isSettled = (await within(running.answer, patienceMs)) !== undefined;
    if (!isSettled) problems.push(notSettled(name, patienceMs));
    problems.push(...thrown(gateway.lines.slice(from), subject, name));
    if (!isSettled) break;
  }
  return problems;
}

/**
 * Lets an hour pass several times, which exceeds every time limit: those that begin at once, after other work, or after
 * another limit. The client waits. Returns the message of the error that a timer has thrown.
 */
async function passHours({ clock }: SubjectGateway): Promise<string | undefined> {
  for (let hour = 0; hour < 5; hour++) {
    await new Promise(setImmediate);
    try {
      clock.advance(3_600_000);
    } catch (error) {
      return messageOf(error);
    }
  }
  return undefined;
}

function leaveAtFirstChunk(running: RunningRequest): void {
  running.response.onChunk = () => running.leave();
}
