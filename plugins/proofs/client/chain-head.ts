/**
 * Answers the operations of `chainHead_v1` that read headers, bodies and storage by verified reads. A node would report
 * their results by events, which have no proof.
 */
import { readHeader } from "../proofs/header.ts";
import { bytesOf, readScale } from "../proofs/scale.ts";
import { RpcError, type Notification } from "./rpc-socket.ts";
import { notProved, type VerifiedReads } from "./verified-reads.ts";

interface StorageItem {
  readonly key: string;
  readonly type: string;
}

const pageKeys = 1_000;
const prefix = "sluice-";

export class ChainHead {
  readonly #reads: VerifiedReads;
  readonly #notify: (notification: Notification) => void;
  readonly #running = new Set<string>();
  #lastId = 0;

  constructor(reads: VerifiedReads, notify: (notification: Notification) => void) {
    this.#reads = reads;
    this.#notify = notify;
  }

  /** Undefined for a method that is not answered here. Rejects with an RpcError. */
  call(method: string, params: readonly unknown[]): Promise<unknown> | undefined {
    const [follow, hash, items, child] = params;
    const block = String(hash).toLowerCase();
    switch (method) {
      case "chainHead_v1_header":
        return this.#header(params, block);
      case "chainHead_v1_body":
        return this.#start(follow, async () => {
          const answer = await this.#reads.call("chain_getBlock", [hash]);
          return [{ event: "operationBodyDone", value: extrinsicsOf(answer) }];
        });
      case "chainHead_v1_storage":
        return this.#start(follow, async () => {
          if (child !== undefined && child !== null)
            throw notProved("the client does not verify child tries here");
          const wanted = items as readonly StorageItem[];
          const found = await Promise.all(wanted.map((item) => this.#items(item, block)));
          return [
            { event: "operationStorageItems", items: found.flat() },
            { event: "operationStorageDone" },
          ];
        });
      case "chainHead_v1_stopOperation":
        return this.#running.delete(String(hash)) ? Promise.resolve(null) : undefined;
      default:
        return undefined;
    }
  }

  async #header(params: readonly unknown[], hash: string): Promise<unknown> {
    const result = await this.#reads.call("chainHead_v1_header", params);
    const bytes = bytesOf(result);
    if (result === null || (bytes && readScale(bytes, readHeader)?.hash === hash)) return result;
    throw notProved("the answer is not the header with this hash");
  }

  /** Reports the events of `run` after the answer to the call has been delivered. */
  #start(follow: unknown, run: () => Promise<readonly object[]>): Promise<unknown> {
    const operationId = `${prefix}${++this.#lastId}`;
    this.#running.add(operationId);
    const report = async (): Promise<void> => {
      const events = await run().catch((error: unknown) => [
        { event: "operationError", error: error instanceof RpcError ? reasonOf(error) : "failed" },
      ]);
      if (!this.#running.delete(operationId)) return;
      for (const event of events)
        this.#notify({
          method: "chainHead_v1_followEvent",
          params: { subscription: follow, result: { ...event, operationId } },
        });
    };
    setTimeout(() => void report(), 0);
    return Promise.resolve({ result: "started", operationId, discardedItems: 0 });
  }

  async #items({ key, type }: StorageItem, hash: string): Promise<readonly object[]> {
    if (type === "value" || type === "hash") {
      const method = type === "value" ? "state_getStorage" : "state_getStorageHash";
      const found = await this.#reads.call(method, [key, hash]);
      return found === null ? [] : [{ key, [type]: found }];
    }
    if (type !== "descendantsValues" && type !== "descendantsHashes")
      throw notProved(`the client cannot verify ${type}`);
    const keys: string[] = [];
    for (let page: string[] | undefined; page === undefined || page.length === pageKeys;) {
      const params = [key, pageKeys, keys.at(-1) ?? null, hash];
      page = (await this.#reads.call("state_getKeysPaged", params)) as string[];
      keys.push(...page);
    }
    const single = type === "descendantsValues" ? "value" : "hash";
    const found = await Promise.all(
      keys.map((each) => this.#items({ key: each, type: single }, hash)),
    );
    return found.flat();
  }
}

function extrinsicsOf(answer: unknown): unknown {
  return (answer as { readonly block: { readonly extrinsics: unknown } }).block.extrinsics;
}

function reasonOf({ message, data }: RpcError): string {
  const reason = (data as { readonly reason?: string } | undefined)?.reason;
  return reason === undefined ? message : `${message}: ${reason}`;
}
