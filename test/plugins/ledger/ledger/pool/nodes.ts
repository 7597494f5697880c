/** Starts the plugin `ledger` over scripted nodes, without its cache and single flight. */
import { startLedger, type LedgerOptions, type StartedLedger } from "../start-ledger.ts";
import {
  createChain,
  onChain,
  startNode,
  type Chain,
  type Script,
  type ScriptedNode,
} from "./scripted-node.ts";

export interface PoolUnderTest extends StartedLedger {
  /** Returns the reason why each node is not used, in order. */
  exclusionReasons(): readonly (string | undefined)[];
  /** Like `outcome`, while time passes. */
  outcomeInTime(method: string): Promise<string>;
  /** Lets time pass until probes have made this true. */
  probes(done: () => boolean): Promise<void>;
  probesShow(...best: readonly number[]): Promise<void>;
}

export const PROBE_MS = 5_000;

export async function startPool(
  urls: readonly string[],
  over: LedgerOptions = {},
): Promise<PoolUnderTest> {
  const started = await startLedger(urls, {
    answerBytes: 100_000,
    probeMs: PROBE_MS,
    maxLag: 10,
    hedging: false,
    singleFlight: false,
    cacheBytes: 0,
    ...over,
  });
  const probes = async (done: () => boolean): Promise<void> => {
    // In small steps, between which the nodes answer, so that no time limit expires.
    do {
      started.clock.advance(PROBE_MS / 10);
      for (let turns = 0; turns < 30 && !done(); turns++)
        await new Promise((resolve) => setImmediate(resolve));
    } while (!done());
  };
  return Object.assign(started, {
    exclusionReasons: () =>
      started.nodes().map(({ state }) => (state === "usable" ? undefined : state)),
    async outcomeInTime(method: string) {
      let outcome: string | undefined;
      void started.outcome(method).then((text) => (outcome = text));
      await until(() => {
        started.clock.advance(100);
        return outcome !== undefined;
      });
      return outcome!;
    },
    probes,
    probesShow: (...best: readonly number[]) =>
      probes(() => started.nodes().every((node, i) => node.best === best[i])),
  });
}

/** Turns the event loop until a condition holds. The time limit of the test ends a wait that never ends. */
export async function until(done: () => boolean): Promise<void> {
  while (!done()) await new Promise((resolve) => setImmediate(resolve));
}

export interface ChainNode extends ScriptedNode {
  readonly chain: Chain;
  calls: Script;
  /** The received calls that were not probes. */
  readonly asked: string[];
}

/** A healthy node of a small chain. `name` is its answer to every call. */
export async function startChainNode(name: string, over: Partial<Chain> = {}): Promise<ChainNode> {
  const chain = createChain(over);
  const asked: string[] = [];
  const node = await startNode(
    onChain(chain, (received) => {
      asked.push(received.call().method);
      whole.calls(received);
    }),
  );
  const whole: ChainNode = Object.assign(node, { chain, asked, calls: says(name) });
  return whole;
}

export function says(text: string): Script {
  return ({ socket, call }): void => {
    const body = `{"jsonrpc":"2.0","id":${call().id},"result":"${text}"}`;
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  };
}
