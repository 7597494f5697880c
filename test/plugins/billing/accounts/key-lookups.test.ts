import assert from "node:assert/strict";
import { test } from "node:test";
import type { StoredKey } from "../../../../plugins/billing/accounts/account-store.ts";
import { KeyLookups } from "../../../../plugins/billing/accounts/stored-keys.ts";

interface Held {
  readonly hashes: readonly string[];
  readonly answer: PromiseWithResolvers<readonly StoredKey[]>;
}

function lookups(): { readonly find: KeyLookups["find"]; readonly held: Held[] } {
  const held: Held[] = [];
  const all = new KeyLookups((hashes) => {
    const answer = Promise.withResolvers<readonly StoredKey[]>();
    held.push({ hashes, answer });
    return answer.promise;
  });
  return { find: (hash) => all.find(hash), held };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("hashes that are asked for during a statement are looked up by the next one, each once", async () => {
  const { find, held } = lookups();
  const first = find("a");
  const later = [find("b"), find("c"), find("b")];
  const asked = (): unknown => held.map(({ hashes }) => hashes);
  assert.deepEqual(asked(), [["a"]]);
  held[0]?.answer.resolve([]);
  assert.equal(await first, undefined);
  await turn();
  assert.deepEqual(asked(), [["a"], ["b", "c"]]);
  held[1]?.answer.resolve([]);
  assert.deepEqual(await Promise.all(later), [undefined, undefined, undefined]);
});

test("a statement has at most 500 hashes, and more than 5,000 may not wait", async () => {
  const { find, held } = lookups();
  const all = Array.from({ length: 5_001 }, (_, n) => find(`hash ${n}`));
  await assert.rejects(find("one more"), { code: "SLUICE_STORE_BUSY" });
  held[0]?.answer.resolve([]);
  await turn();
  assert.equal(held[1]?.hashes.length, 500);
  while (held.length > 0) {
    held.shift()?.answer.resolve([]);
    await turn();
  }
  await Promise.all(all);
});
