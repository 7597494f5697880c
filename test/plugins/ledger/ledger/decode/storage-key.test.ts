import assert from "node:assert/strict";
import { test } from "node:test";
import { blake2AsU8a, xxhashAsU8a } from "@polkadot/util-crypto";
import { hashKey, storagePrefix } from "../../../../../plugins/ledger/ledger/decode/storage-key.ts";
import type { Hasher } from "../../../../../plugins/ledger/ledger/decode/metadata.ts";

const judges: Readonly<Record<Hasher, (key: Uint8Array) => Uint8Array>> = {
  blake2_128: (key) => blake2AsU8a(key, 128),
  blake2_256: (key) => blake2AsU8a(key, 256),
  blake2_128_concat: (key) => Buffer.concat([blake2AsU8a(key, 128), key]),
  twox_128: (key) => xxhashAsU8a(key, 128),
  twox_256: (key) => xxhashAsU8a(key, 256),
  twox_64_concat: (key) => Buffer.concat([xxhashAsU8a(key, 64), key]),
  identity: (key) => key,
};

for (const [hasher, judge] of Object.entries(judges)) {
  test(`${hasher} is @polkadot/util-crypto's, at every length up to 100`, () => {
    for (let length = 0; length <= 100; length++) {
      const key = Uint8Array.from({ length }, (_, i) => (i * 151 + length * 31) & 255);
      // The keys of the table are hashers.
      assert.deepEqual(hashKey(hasher as Hasher, key), Buffer.from(judge(key)));
    }
  });
}

test("the key of System.Events is the one that every Substrate chain has", () => {
  assert.equal(
    storagePrefix("System", "Events").toString("hex"),
    "26aa394eea5630e07c48ae0c9558cef780d41e5e16056765bc8461851072c9d7",
  );
});
