/** The modules and packages that the client of the encrypted stream imports. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { bundleClient } from "./bundle.ts";

test("the client's modules use neither Node's modules nor server code", async () => {
  const { files } = await bundleClient();
  const own = files.filter((file) => file.startsWith("src/") || file.startsWith("plugins/"));
  const allowed =
    /^(plugins\/(confidential\/(client|protocol|verify)|contracts)\/|src\/(entries\/toolkit|base\/(bounded-map|canonical-json|csv|duration|error-code|guard|is-object|json-bounds|json-pointer|json-text|message-of|parse-json|shared-schemas))\.ts$)/;
  assert.ok(own.includes("plugins/confidential/client/client.ts"));
  assert.ok(own.includes("plugins/confidential/verify/tdx.ts"));
  assert.deepEqual(
    own.filter((file) => !allowed.test(file) || file.includes("/node-")),
    [],
  );
});

test("the client depends only on the expected packages", async () => {
  const { files } = await bundleClient();
  const name = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/;
  const packages = new Set(files.flatMap((file) => name.exec(file)?.[1] ?? []));
  assert.deepEqual([...packages].toSorted(), [
    "@noble/hashes",
    "@peculiar/asn1-schema",
    "@peculiar/asn1-x509",
    "@peculiar/utils",
    "@phala/dcap-qvl",
    // The others are dependencies of dcap-qvl and asn1-schema, which run in a browser unchanged.
    "asn1.js",
    "asn1js",
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
    "pvtsutils",
    "pvutils",
    "safer-buffer",
    "tslib",
  ]);
});
