import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  hasRevocationList,
  revocationListService,
  stapleRevocationList,
} from "../../../../plugins/confidential/evidence/revocation-list.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { createSnpPlatform } from "../verify/snp-platform.ts";

const snp = await createSnpPlatform();
const now = Date.UTC(2026, 10, 21);
const list = snp.revocationList([], now - 1, now + 86_400_000);
const { signal } = new AbortController();

describe("AMD's revocation list", () => {
  test("is fetched once per hour and product, and sooner after a failure", async () => {
    const clock = manualClock(now);
    const asked: string[] = [];
    let answer: Uint8Array | Error = new Error("no route");
    const source = revocationListService("https://kds.example/", clock, (url) => {
      asked.push(url);
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    });
    assert.equal(await source("Milan", signal), undefined);
    answer = list;
    assert.equal(await source("Milan", signal), undefined);
    clock.advance(60_000);
    assert.deepEqual(await source("Milan", signal), list);
    assert.deepEqual(await source("Genoa", signal), list);
    // An invalid list does not replace the previous one.
    for (answer of [new Uint8Array(20), new Uint8Array(40_000), new Error("gone")]) {
      clock.advance(3_600_000);
      assert.deepEqual(await source("Milan", signal), list);
    }
    assert.deepEqual(asked.slice(0, 3), [
      "https://kds.example/vcek/v1/Milan/crl",
      "https://kds.example/vcek/v1/Milan/crl",
      "https://kds.example/vcek/v1/Genoa/crl",
    ]);
    assert.equal(asked.length, 6);
  });

  test("replaces the list that the host included, and other evidence is unchanged", async () => {
    const old = snp.revocationList([], now - 10, now - 5);
    const evidence = snp.evidence({ table: { crl: old } });
    const stapled = await stapleRevocationList(evidence, () => Promise.resolve(list), signal);
    const aux = Buffer.from(stapled.aux ?? "", "base64");
    assert.equal(aux.includes(list), true);
    assert.equal(aux.includes(old), false);
    const bare = snp.evidence();
    assert.equal(hasRevocationList(stapled), true);
    assert.equal(hasRevocationList(bare), false);
    const { aux: _, ...tableless } = bare;
    const garbled = { ...bare, aux: "AAAA" };
    for (const other of [tableless, garbled, { tee_type: "tdx", quote: "" } as const]) {
      const source = (): Promise<typeof list> => Promise.resolve(list);
      assert.equal(await stapleRevocationList(other, source, signal), other);
      assert.equal(hasRevocationList(other), false);
    }
  });
});
