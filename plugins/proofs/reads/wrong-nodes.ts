/** Finds the nodes whose answers are proved to be wrong, stops using them, and keeps the evidence. */
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Host } from "sluice-gateway/plugin";
import type { LedgerNode } from "sluice-gateway/services";
import { headNode } from "../proofs/ledger-node.ts";
import { headerOf, NodeError } from "../proofs/node.ts";
import { UnprovableError, type ProvableRead } from "./read.ts";

/** decisions.md section 18. */
const maxCases = 64;
/** The answers of a larger case are not kept. */
const maxCaseBytes = 1_048_576;

interface AnsweredCall {
  readonly method: string;
  readonly params: readonly unknown[];
  readonly answer: unknown;
}

interface Evidence {
  readonly upstream: string;
  readonly node: string;
  readonly reason: string;
  readonly block: string;
  readonly calls: readonly AnsweredCall[];
}

export class WrongNodes {
  readonly #upstream: string;
  readonly #nodes: readonly LedgerNode[];
  readonly #host: Pick<Host, "clock" | "log" | "store">;
  #isSearching = false;

  constructor(
    upstream: string,
    nodes: readonly LedgerNode[],
    host: Pick<Host, "clock" | "log" | "store">,
  ) {
    this.#upstream = upstream;
    this.#nodes = nodes;
    this.#host = host;
  }

  /** Describes the nodes that are not used. Undefined if there are none. */
  get reason(): string | undefined {
    const names = this.#nodes.filter(({ isDistrusted }) => isDistrusted).map(({ name }) => name);
    return names.length === 0 ? undefined : `wrong proofs of ${names.join(", ")}`;
  }

  /**
   * Call this after a wrong answer, if it is not known which node gave it. One search runs at a time. Never rejects.
   */
  async search(run: ProvableRead["run"], hash: string): Promise<void> {
    if (this.#isSearching) return;
    this.#isSearching = true;
    try {
      await Promise.all(this.#nodes.map((node) => this.#ask(node, run, hash)));
    } catch (err) {
      this.#host.log.error({ err, upstream: this.#upstream }, "a wrong proof could not be kept");
    } finally {
      this.#isSearching = false;
    }
  }

  async #ask(node: LedgerNode, run: ProvableRead["run"], hash: string): Promise<void> {
    const calls: AnsweredCall[] = [];
    const plain = headNode(node);
    const recording: typeof plain = {
      ...plain,
      async call(method, params) {
        const answer = await plain.call(method, params);
        calls.push({ method, params, answer });
        return answer;
      },
    };
    try {
      await run({ node: recording, hash, header: () => headerOf(recording, hash) });
    } catch (error) {
      if (!(error instanceof NodeError) && !(error instanceof UnprovableError)) throw error;
      if (!(error instanceof NodeError) || !error.isProvedWrong) return;
      node.distrust();
      const about = { upstream: this.#upstream, node: node.name, reason: error.message };
      this.#host.log.error(about, "an answer of a node is proved to be wrong");
      await this.#keep({ ...about, block: hash, calls });
    }
  }

  async #keep(evidence: Evidence): Promise<void> {
    const { store, clock } = this.#host;
    const folder = join(store.folder, "wrong-proofs");
    await mkdir(folder, { recursive: true });
    const time = new Date(clock.now()).toISOString();
    const whole = JSON.stringify({ time, ...evidence }, undefined, 2);
    const text =
      whole.length <= maxCaseBytes
        ? whole
        : JSON.stringify({ time, ...evidence, calls: "too large to be kept" }, undefined, 2);
    const name = `${time}-${evidence.node}`.replaceAll(/[^\w.-]/g, "_");
    await writeFile(join(folder, `${name}.json`), text);
    // The names begin with the time.
    const kept = (await readdir(folder)).toSorted();
    for (const old of kept.slice(0, -maxCases)) await rm(join(folder, old), { force: true });
  }
}
