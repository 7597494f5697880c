/** Finds what a thread runs whose event loop does not run, as a debugger does. */
import { Session } from "node:inspector";
import type { Worker } from "node:worker_threads";
import { guarded } from "../../base/guard.ts";
import type { Clock } from "../../plugin.ts";

/** Time limit for the whole. A thread in native code does not pause. */
const limitMs = 2_000;

interface CallFrame {
  readonly functionName: string;
  readonly location: {
    readonly scriptId: string;
    readonly lineNumber: number;
    readonly columnNumber?: number;
  };
}

type DebuggerMessage =
  | {
      readonly method: "Debugger.scriptParsed";
      readonly params: { readonly scriptId: string; readonly url: string };
    }
  | {
      readonly method: "Debugger.paused";
      readonly params: { readonly callFrames: readonly CallFrame[] };
    }
  /** The answer to `Debugger.disable`, which also ends the pause. */
  | { readonly method?: undefined; readonly id: typeof disableId };

const disableId = 3;

export async function stackOf({ threadId }: Worker, clock: Clock): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  using _limit = clock.after(limitMs, () => resolve(""));
  const failed = (): void => resolve("");
  const urls = new Map<string, string>();
  let stack = "";
  const session = new Session();
  session.connect();
  const ask = (sessionId: string, id: number, method: string): void => {
    const message = JSON.stringify({ id, method });
    session.post("NodeWorker.sendMessageToWorker", { sessionId, message });
  };
  session.on(
    "NodeWorker.attachedToWorker",
    guarded(({ params: { sessionId, workerInfo } }) => {
      if (!workerInfo.title.startsWith(`[worker ${threadId}]`)) return;
      ask(sessionId, 1, "Debugger.enable");
      ask(sessionId, 2, "Debugger.pause");
    }, failed),
  );
  session.on(
    "NodeWorker.receivedMessageFromWorker",
    guarded(({ params: { sessionId, message } }) => {
      const received = JSON.parse(message) as DebuggerMessage;
      if (received.method === "Debugger.scriptParsed") {
        urls.set(received.params.scriptId, received.params.url);
      } else if (received.method === "Debugger.paused") {
        const lines = received.params.callFrames.map((frame) => lineOf(frame, urls));
        stack = lines.join("\n");
        // A thread that is paused cannot be ended.
        ask(sessionId, disableId, "Debugger.disable");
      } else if (received.method === undefined && received.id === disableId) {
        resolve(stack);
      }
    }, failed),
  );
  try {
    session.post("NodeWorker.enable", { waitForDebuggerOnStart: false });
    return await promise;
  } finally {
    session.disconnect();
  }
}

function lineOf({ functionName, location }: CallFrame, urls: ReadonlyMap<string, string>): string {
  const { scriptId, lineNumber, columnNumber = 0 } = location;
  const name = functionName === "" ? "<anonymous>" : functionName;
  return `    at ${name} (${urls.get(scriptId) ?? ""}:${lineNumber + 1}:${columnNumber + 1})`;
}
