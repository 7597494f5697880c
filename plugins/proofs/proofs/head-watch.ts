/** Checks and reports the finalized heads of the nodes of an upstream. */
import type { BackendStatus, Gauge, Host } from "sluice-gateway/plugin";
import { late, withinLimit } from "sluice-gateway/internal/toolkit";
import type { WrongNodes } from "../reads/wrong-nodes.ts";
import { checkHeads, type NodeHead } from "./head-check.ts";
import type { Header } from "./header.ts";
import { NodeError, type HeadNode } from "./node.ts";
import type { ProvedChain } from "./proved-chain.ts";
import type { Relay } from "./relayed-chain.ts";

/** Time between two checks: that between two blocks. */
const everyMs = 6_000;
/** Time in which a node must report its head. One that hangs must not delay the proofs for the others. */
const headMs = 5_000;

export class HeadWatch implements Relay {
  /** Resolves after the first check. Never rejects. */
  readonly first: Promise<void>;
  readonly chain: ProvedChain;
  readonly nodes: readonly HeadNode[];
  readonly #name: string;
  readonly #wrongNodes: WrongNodes;
  readonly #host: Pick<Host, "clock" | "log">;
  readonly #differs: readonly Gauge[];
  readonly #block: Gauge;
  readonly #provedAt: Gauge;
  #heads: readonly NodeHead[] = [];
  #checking: Promise<void> | undefined;
  /** Time of the last check that proved a higher block, in milliseconds since 1970. */
  #provedAtMs: number;

  constructor(
    name: string,
    chain: ProvedChain,
    nodes: readonly HeadNode[],
    wrongNodes: WrongNodes,
    host: Host,
  ) {
    this.#name = name;
    this.#wrongNodes = wrongNodes;
    this.nodes = nodes;
    this.chain = chain;
    this.#host = host;
    this.#provedAtMs = host.clock.now();
    const { metrics } = host;
    const differs = metrics.gauge(
      "sluice_head_differs",
      "1 while the finalized head of a node contradicts what is proved, else 0.",
      ["upstream", "node"],
      { isSameInThreads: true },
    );
    this.#differs = nodes.map(({ name: node }) => differs.with({ upstream: name, node }));
    this.#block = metrics
      .gauge(
        "sluice_head_proved_block",
        "Number of the highest block whose finality is proved.",
        ["upstream"],
        { isSameInThreads: true },
      )
      .with({ upstream: name });
    this.#provedAt = metrics
      .gauge(
        "sluice_head_proved_timestamp_seconds",
        "Time at which a higher block was last proved, or the time of the start.",
        ["upstream"],
        { isSameInThreads: true },
      )
      .with({ upstream: name });
    this.#show();
    // It takes long if it follows many changes of the authority set.
    this.first = this.refresh();
    host.every(everyMs, () => this.refresh());
  }

  refresh(): Promise<void> {
    return (this.#checking ??= this.#check().finally(() => (this.#checking = undefined)));
  }

  status(): BackendStatus {
    const { number, hash, setId, ended } = this.chain;
    const differing = this.#heads.filter(({ state }) => state === "differs").length;
    const reason =
      ended ??
      (differing > 0
        ? `${differing} of ${this.nodes.length} nodes differ`
        : this.#wrongNodes.reason);
    return {
      kind: "head",
      title: `finalized head of ${this.#name}`,
      ready: reason ?? true,
      isOptional: true,
      details: {
        name: this.#name,
        number,
        hash,
        ...(setId !== undefined && { set_id: Number(setId) }),
        proved_at: new Date(this.#provedAtMs).toISOString(),
        heads: this.#heads,
        ...(ended !== undefined && { ended }),
      },
    };
  }

  close(): void {
    for (const gauge of [...this.#differs, this.#block, this.#provedAt]) gauge.remove();
  }

  async #check(): Promise<void> {
    const before = this.chain.number;
    const heads = await checkHeads(this.nodes, this.chain, (head) => this.#inTime(head));
    if (this.chain.number > before) this.#provedAtMs = this.#host.clock.now();
    const stateBefore = new Map(this.#heads.map(({ node, state }) => [node, state]));
    for (const head of heads) {
      if (head.state === "differs" && stateBefore.get(head.node) !== "differs")
        this.#host.log.error(
          { upstream: this.#name, ...head },
          "the finalized head of a node is wrong",
        );
    }
    this.#heads = heads;
    this.#show();
  }

  async #inTime(head: Promise<Header>): Promise<Header> {
    const found = await withinLimit(head, headMs, this.#host.clock);
    if (found === late) throw new NodeError("the node does not answer in time");
    return found;
  }

  #show(): void {
    this.#differs.forEach((gauge, index) =>
      gauge.set(this.#heads[index]?.state === "differs" ? 1 : 0),
    );
    this.#block.set(this.chain.number);
    this.#provedAt.set(this.#provedAtMs / 1000);
  }
}
