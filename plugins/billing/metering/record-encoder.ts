/**
 * Encodes charges and the begins and ends of streams as the records of one commit. Names that recur are numbers, which
 * the commit that first uses them introduces.
 */
import type { ReservedFor } from "sluice-gateway/services";
import type { LeasedCharge } from "../leases/ledger.ts";
import { chargeText, withPricing } from "./charge-text.ts";
import type { Split } from "./month-draws.ts";
import {
  maxNameBytes,
  maxRecordBytes,
  writeCharge,
  writeClosed,
  writeIntent,
  writeName,
  type Target,
} from "./records.ts";

/** A charge may introduce seven names: key, workspace, surface, method, model, outcome and route. */
const maxBytes = maxRecordBytes + 7 * maxNameBytes;

export class RecordEncoder {
  readonly #names: Map<string, number>;
  #nextName = 1;
  /** Names that no commit on disk has introduced yet. */
  #newNames: string[] = [];
  #target = targetOf(64 * 1024);
  #end = 0;
  /** Number of records since the last `take`. */
  rows = 0;

  /** `names`: the names that are on disk, with their numbers. */
  constructor(names: ReadonlyMap<string, number>) {
    this.#names = new Map(names);
    for (const id of this.#names.values()) this.#nextName = Math.max(this.#nextName, id + 1);
  }

  /** `intent`: number of the stream that ends with this charge. 0 if there is none. */
  charge({ details, keyId, workspaceId, time }: LeasedCharge, split: Split, intent: number): void {
    this.#reserveBytes();
    const { about, line } = details;
    const key = this.#number(keyId);
    const workspace = this.#number(workspaceId);
    const surface = this.#number(line.surface);
    const method = this.#number(line.method);
    const model = line.model === undefined ? 0 : this.#number(line.model);
    const outcome = line.outcome === undefined ? 0 : this.#number(line.outcome);
    const route = about.route === undefined ? 0 : this.#number(about.route);
    this.#added(
      writeCharge(this.#target, this.#end, {
        key,
        workspace,
        surface,
        method,
        model,
        outcome,
        time,
        split,
        inputTokens: line.inputTokens ?? 0,
        outputTokens: line.outputTokens ?? 0,
        cachedTokens: line.cachedTokens ?? 0,
        reasoningTokens: line.reasoningTokens ?? 0,
        estimated: line.estimated === true,
        route,
        intent,
        text: withPricing(chargeText(about.requestId, about.agent), line.pricing),
      }),
    );
  }

  /** Adds the begin of a stream. `account`: its payer. */
  begin(
    intent: number,
    time: number,
    account: { readonly keyId: string; readonly workspaceId: string },
    reservedMilliCu: number,
    { requestId, surface: surfaceName }: ReservedFor,
  ): void {
    this.#reserveBytes();
    const key = this.#number(account.keyId);
    const workspace = this.#number(account.workspaceId);
    const surface = this.#number(surfaceName);
    const fields = { key, workspace, surface, time, intent, reservedMilliCu, requestId };
    this.#added(writeIntent(this.#target, this.#end, fields));
  }

  /** Adds the end of a stream without a charge. */
  end(intent: number, time: number, why: number): void {
    this.#reserveBytes();
    this.#added(writeClosed(this.#target, this.#end, time, intent, why));
  }

  /** Returns the records that were added since the last call. */
  take(): Uint8Array<ArrayBuffer> {
    const records = new Uint8Array(this.#end);
    records.set(this.#target.bytes.subarray(0, this.#end));
    this.#end = 0;
    this.rows = 0;
    return records;
  }

  /** Called when the records that were taken are on disk, and none were added since. */
  saved(): void {
    this.#newNames = [];
  }

  /** Called when the records since the last call of `saved` will never be on disk. */
  discard(): void {
    for (const name of this.#newNames) this.#names.delete(name);
    this.#newNames = [];
    this.#end = 0;
    this.rows = 0;
  }

  #number(name: string): number {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    const id = this.#nextName++;
    this.#names.set(name, id);
    this.#newNames.push(name);
    this.#end += writeName(this.#target, this.#end, id, name);
    return id;
  }

  #added(bytes: number): void {
    this.#end += bytes;
    this.rows++;
  }

  #reserveBytes(): void {
    const { bytes } = this.#target;
    if (this.#end + maxBytes <= bytes.length) return;
    this.#target = targetOf(2 * bytes.length);
    this.#target.bytes.set(bytes.subarray(0, this.#end));
  }
}

function targetOf(length: number): Target {
  const bytes = Buffer.alloc(length);
  return { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, length) };
}
