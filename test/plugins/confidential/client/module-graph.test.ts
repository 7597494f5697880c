import assert from "node:assert/strict";
import { test } from "node:test";
import { bundleClient } from "./bundle.ts";

test("nothing that the client is made of is Node's alone, or a server's", async () => {
  const { files } = await bundleClient();
  const own = files.filter((file) => file.startsWith("src/") || file.startsWith("plugins/"));
  const allowed =
    /^(plugins\/confidential\/(client|protocol|verify)\/|src\/(decimal|json-bounds|parse-json|price|rfc3339)\.ts$)/;
  assert.ok(own.includes("plugins/confidential/client/client.ts"));
  assert.ok(own.includes("plugins/confidential/verify/tdx.ts"));
  assert.deepEqual(
    own.filter((file) => !allowed.test(file) || file.includes("/node-")),
    [],
  );
});

test("the packages that the client brings along are few", async () => {
  const { files } = await bundleClient();
  const name = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/;
  const packages = new Set(files.flatMap((file) => name.exec(file)?.[1] ?? []));
  assert.deepEqual([...packages].toSorted(), [
    "@noble/hashes",
    "@phala/dcap-qvl",
    // Of dcap-qvl: they work in a browser as they are.
    "asn1.js",
    "base64-js",
    "bn.js",
    "brorand",
    "buffer",
    "elliptic",
    "hash.js",
    "hmac-drbg",
    "ieee754",
    "inherits",
    "minimalistic-assert",
    "minimalistic-crypto-utils",
    "node-fetch",
    "safer-buffer",
  ]);
});
