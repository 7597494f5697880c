/** Starts a pool over scripted nodes, with a clock that only the test moves. */
import { openPool, type OpenPool } from "../../../../../plugins/ledger/ledger/pool/pool.ts";
import type { NodesConfig } from "../../../../../plugins/ledger/ledger/pool/open-node.ts";
import type { Log } from "../../../../../src/contract/log.ts";
import { manualClock, type ManualClock } from "../../../../../src/testing/clock.ts";
import { recordRequest, readableMetrics, type RecordedRequest } from "./recorded-request.ts";
import {
  createChain,
  onChain,
  startNode,
  type Chain,
  type Script,
  type ScriptedNode,
} from "./scripted-node.ts";
import type { NodeRequest } from "../../../../../plugins/ledger/ledger/node-pool.ts";

export interface LogLine {
  readonly level: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

export interface PoolUnderTest extends AsyncDisposable {
  readonly pool: OpenPool;
  readonly clock: ManualClock;
  readonly lines: readonly LogLine[];
  readonly values: ReadonlyMap<string, number>;
  send(over?: Partial<NodeRequest>): RecordedRequest;
  /** Sends a call and returns the text of the answer, or the reason why there was none. */
  outcome(over?: Partial<NodeRequest>): Promise<string>;
  /** Returns the warning about each node, in order. */
  exclusionReasons(): readonly (string | undefined)[];
  /** Advances by one round of probes, waits until `done`, and leaves no probe running. */
  probes(done: () => boolean): Promise<void>;
}

export const PROBE_MS = 5_000;

export function startPool(urls: readonly string[], over: Partial<NodesConfig> = {}): PoolUnderTest {
  const clock = manualClock();
  const lines: LogLine[] = [];
  const { values, ...metrics } = readableMetrics();
  const level = (name: string) => (fields: object, message: string) =>
    void lines.push({ level: name, fields: { ...fields }, message });
  const log: Log = {
    debug: level("debug"),
    info: level("info"),
    warn: level("warn"),
    error: level("error"),
    child: () => log,
  };
  const upstream: NodesConfig = {
    name: "ledger",
    urls,
    connectMs: 1_000,
    headersMs: 3_000,
    idleMs: 2_000,
    connections: 4,
    answerBytes: 100_000,
    probeMs: PROBE_MS,
    probeTimeoutMs: 3_000,
    maxLag: 10,
    maxHeadAgeMs: undefined,
    hedging: false,
    ...over,
  };
  const pool = openPool({ upstream, clock, log, metrics });
  const send = (wanted: Partial<NodeRequest> = {}): RecordedRequest => {
    const asked = recordRequest(wanted);
    pool.send(asked);
    return asked;
  };
  return {
    pool,
    clock,
    lines,
    values,
    send,
    async outcome(wanted) {
      const ending = await send(wanted).ending;
      return ending.kind === "failed" ? ending.reason : ending.text;
    },
    exclusionReasons: () => pool.status().map(({ exclusionReason: complaint }) => complaint),
    async probes(done) {
      clock.advance(PROBE_MS);
      await until(done);
      await pool.probe();
    },
    [Symbol.asyncDispose]: () => pool.close(),
  };
}

/** Turns the event loop until a condition holds. The time limit of the test ends a wait that never ends. */
export async function until(done: () => boolean): Promise<void> {
  while (!done()) await new Promise((resolve) => setImmediate(resolve));
}

export interface ChainNode extends ScriptedNode {
  readonly chain: Chain;
  /** The behaviour of the node for calls that are not probes. */
  calls: Script;
  /** Number of received calls that were not probes. */
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

/** Answers every call with this string. */
export function says(text: string): Script {
  return ({ socket, call }): void => {
    const body = `{"jsonrpc":"2.0","id":${call().id},"result":"${text}"}`;
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  };
}
