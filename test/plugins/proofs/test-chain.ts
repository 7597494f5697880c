/** A chain with GRANDPA, encoded by `@polkadot/types`. Nothing here uses the code that is tested. */
import { generateKeyPairSync, sign, type KeyObject } from "node:crypto";
import { TypeRegistry } from "@polkadot/types";
import { blake2AsU8a } from "@polkadot/util-crypto";
import type { Checkpoint } from "../../../plugins/proofs/proofs/finalized-chain.ts";
import { NodeError, type HeadNode } from "../../../plugins/proofs/proofs/node.ts";

export const registry = new TypeRegistry();
registry.register({
  TestScheduledChange: { next: "Vec<(AuthorityId, u64)>", delay: "u32" },
  TestConsensusLog: {
    _enum: {
      Unused: "Null",
      ScheduledChange: "TestScheduledChange",
      ForcedChange: "(u32, TestScheduledChange)",
      OnDisabled: "u64",
    },
  },
  TestMessage: {
    _enum: { Prevote: "GrandpaPrecommit", Precommit: "GrandpaPrecommit" },
  },
  TestPayload: { message: "TestMessage", round: "u64", setId: "u64" },
  TestFinalityProof: { block: "Hash", justification: "Bytes", unknownHeaders: "Vec<Header>" },
});

export interface TestVoter {
  readonly id: string;
  readonly privateKey: KeyObject;
  readonly weight: number;
}

export function voters(count: number, weight = 1): readonly TestVoter[] {
  return Array.from({ length: count }, () => {
    const { publicKey, privateKey } = generateKeyPairSync("ed25519");
    const id = `0x${publicKey.export({ type: "spki", format: "der" }).subarray(-32).toString("hex")}`;
    return { id, privateKey, weight };
  });
}

export interface TestBlock {
  readonly number: number;
  readonly hash: string;
  /** As `chain_getHeader` returns it. */
  readonly header: Readonly<Record<string, unknown>>;
}

export interface TestSet {
  readonly id: number;
  readonly voters: readonly TestVoter[];
  /** Number of the first block that the set finalizes. */
  readonly from: number;
}

interface NewBlock {
  readonly next?: readonly TestVoter[];
  readonly forced?: readonly TestVoter[];
  readonly delay?: number;
  /** Makes the hash differ from that of other blocks with this parent. */
  readonly salt?: string;
  readonly stateRoot?: Uint8Array;
  readonly extrinsicsRoot?: Uint8Array;
}

export interface TestVote {
  readonly voter: TestVoter;
  readonly block: Pick<TestBlock, "number" | "hash">;
  readonly setId?: number;
  readonly round?: number;
}

export interface TestJustification {
  readonly target: Pick<TestBlock, "number" | "hash">;
  readonly votes: readonly TestVote[];
  readonly setId: number;
  readonly ancestries?: readonly TestBlock[];
}

const round = 7;

/** Returns the bytes of a justification as text. */
export function justification({
  target,
  votes,
  setId,
  ancestries = [],
}: TestJustification): string {
  const precommits = votes.map(({ voter, block, ...signed }) => {
    const precommit = { targetHash: block.hash, targetNumber: block.number };
    const payload = { message: { Precommit: precommit }, round, setId, ...signed };
    const bytes = registry.createType("TestPayload", payload).toU8a();
    const signature = `0x${sign(null, bytes, voter.privateKey).toString("hex")}`;
    return { precommit, signature, id: voter.id };
  });
  const commit = { targetHash: target.hash, targetNumber: target.number, precommits };
  const votesAncestries = ancestries.map(({ header }) => header);
  return registry.createType("GrandpaJustification", { round, commit, votesAncestries }).toHex();
}

export function finalityProof(
  block: string,
  justified: string,
  headers: readonly TestBlock[],
): string {
  const unknownHeaders = headers.map(({ header }) => header);
  return registry
    .createType("TestFinalityProof", { block, justification: justified, unknownHeaders })
    .toHex();
}

export class TestChain {
  readonly blocks: TestBlock[];
  readonly sets: TestSet[];
  finalized = 0;

  constructor(set: readonly TestVoter[]) {
    this.sets = [{ id: 0, voters: set, from: 1 }];
    this.blocks = [];
    this.add({}, 1);
  }

  get head(): TestBlock {
    return this.at(this.blocks.length - 1);
  }

  at(number: number): TestBlock {
    const block = this.blocks[number];
    if (block === undefined) throw new Error(`no block ${number}`);
    return block;
  }

  setOf(number: number): TestSet {
    const set = this.sets.findLast(({ from }) => from <= Math.max(number, 1));
    if (set === undefined) throw new Error(`no set for ${number}`);
    return set;
  }

  /** Adds `count` blocks; the first one has the changes. */
  add(
    { next, forced, delay = 0, salt = "", stateRoot, extrinsicsRoot }: NewBlock,
    count = 1,
  ): this {
    for (let index = 0; index < count; index++) {
      const number = this.blocks.length;
      const change = (authorities: readonly TestVoter[]): object => ({
        next: authorities.map(({ id, weight }) => [id, weight]),
        delay,
      });
      const items = [
        next && { ScheduledChange: change(next) },
        forced && { ForcedChange: [0, change(forced)] },
        { OnDisabled: 3 },
      ].flatMap((log) =>
        log === undefined || (index > 0 && !("OnDisabled" in log))
          ? []
          : [{ Consensus: ["FRNK", registry.createType("TestConsensusLog", log).toHex()] }],
      );
      const header = registry.createType("Header", {
        parentHash: this.blocks.at(-1)?.hash ?? new Uint8Array(32),
        number,
        stateRoot: stateRoot ?? blake2AsU8a(`state ${salt} ${number}`),
        extrinsicsRoot: extrinsicsRoot ?? blake2AsU8a("extrinsics"),
        digest: {
          logs: [{ PreRuntime: ["BABE", "0x0102"] }, ...items, { Seal: ["BABE", "0x03"] }],
        },
      });
      const hash = `0x${Buffer.from(blake2AsU8a(header.toU8a(), 256)).toString("hex")}`;
      const logs = header.digest.logs.map((log) => log.toHex());
      const json = { ...header.toJSON(), number: header.number.toHex(), digest: { logs } };
      this.blocks.push({ number, hash, header: json });
      const set = next ?? forced;
      if (set !== undefined && index === 0)
        this.sets.push({ id: this.sets.length, voters: set, from: number + delay + 1 });
    }
    return this;
  }

  finalize(number = this.head.number): this {
    this.finalized = number;
    return this;
  }

  /** A chain with the blocks up to `number`, and other blocks after them. */
  fork(number: number, count: number): TestChain {
    const other = new TestChain(this.setOf(1).voters);
    other.blocks.splice(0, Infinity, ...this.blocks.slice(0, number + 1));
    other.sets.splice(0, Infinity, ...this.sets.filter(({ from }) => from <= number + 1));
    return other.add({ salt: "fork" }, count).finalize();
  }

  checkpoint(number: number): Checkpoint {
    const { id, voters: set } = this.setOf(number + 1);
    const authorities = set.map((voter) => [voter.id, voter.weight] as const);
    return { number, hash: this.at(number).hash, setId: id, authorities };
  }

  /** The block that the proof for `number` justifies: the last one of its set, or the finalized head. */
  targetOf(number: number): TestBlock {
    const next = this.sets.find(({ from }) => from > number);
    return this.at(Math.min(next === undefined ? Infinity : next.from - 1, this.finalized));
  }

  justify(target: TestBlock, changes: Partial<TestJustification> = {}): string {
    const { id: setId, voters: set } = this.setOf(target.number);
    const votes = set.map((voter) => ({ voter, block: target }));
    return justification({ target, votes, setId, ...changes });
  }

  /** The answer of `grandpa_proveFinality`, like that of sc-consensus-grandpa. */
  prove(number: number, changes: Partial<TestJustification> = {}): string {
    const target = this.targetOf(number);
    return finalityProof(
      target.hash,
      this.justify(target, changes),
      this.blocks.slice(number + 1, target.number + 1),
    );
  }

  answer(method: string, [param]: readonly unknown[]): unknown {
    if (method === "chain_getFinalizedHead") return this.at(this.finalized).hash;
    if (method === "chain_getBlockHash") return this.blocks[Number(param)]?.hash ?? null;
    if (method === "chain_getHeader" && param === undefined) return this.at(this.finalized).header;
    if (method === "chain_getHeader")
      return this.blocks.find(({ hash }) => hash === param)?.header ?? null;
    if (method === "grandpa_proveFinality") {
      if (Number(param) > this.finalized) throw new NodeError("not yet finalized");
      return this.prove(Number(param));
    }
    throw new NodeError(`unknown method ${method}`);
  }

  /** `lie`: returns undefined where the node answers as the chain does. */
  node(name: string, lie: (method: string, param: unknown) => unknown = () => {}): HeadNode {
    const answer = this.answer.bind(this);
    return {
      name,
      async call(method, params) {
        const lied = lie(method, params[0]);
        return lied === undefined ? answer(method, params) : lied;
      },
    };
  }
}
