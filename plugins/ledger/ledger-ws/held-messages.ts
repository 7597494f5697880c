/** Counts the bytes of one connection's messages that are being answered or wait for their turn. */
import type { Memory, MemoryHold } from "sluice-gateway/plugin";
import type { LedgerRpc, RpcAnswer } from "sluice-gateway/services";

export class HeldMessages {
  readonly #hold: MemoryHold;
  readonly #waiting = new Set<LedgerRpc>();
  #isReleased = false;

  /** `onRefused`: called when the connection makes room for another caller. It must call `release`. */
  constructor(memory: Memory, keyId: string, onRefused: () => void) {
    this.#hold = memory.hold(keyId, "request", onRefused);
  }

  /** Returns false if the message must not be kept. */
  add(bytes: number): boolean {
    return this.#hold.resize(this.#hold.bytes + bytes);
  }

  remove(bytes: number): void {
    if (!this.#isReleased) this.#hold.resize(this.#hold.bytes - bytes);
  }

  /** If the messages are released meanwhile, the call keeps nothing of its body. */
  async waitFor(rpc: LedgerRpc, running: Promise<RpcAnswer>): Promise<RpcAnswer> {
    if (this.#isReleased) rpc.release();
    this.#waiting.add(rpc);
    try {
      return await running;
    } finally {
      this.#waiting.delete(rpc);
    }
  }

  /** The connection has closed. The calls that nodes have received continue, without their bodies. */
  release(): void {
    this.#isReleased = true;
    this.#hold[Symbol.dispose]();
    for (const rpc of this.#waiting) rpc.release();
    this.#waiting.clear();
  }
}
