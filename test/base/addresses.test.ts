/** Tests of the parser of lists of addresses, and of the algorithm that maps an address to the key of its network. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { addressKey } from "sluice-gateway/internal/http";
import { addressList, isAddressBlock } from "../../src/base/address-list.ts";

test("a list contains its addresses and the addresses of its blocks, and nothing else", () => {
  const contains = addressList(["192.0.2.1", "10.0.0.0/8", "fd00::/8", "2001:db8::7"]);
  for (const inside of ["192.0.2.1", "10.255.255.255", "fdff::1", "2001:DB8:0::7"]) {
    assert.ok(contains(inside), inside);
  }
  for (const outside of ["192.0.2.2", "11.0.0.0", "fe00::1", "2001:db8::8", "", "unknown", "10"]) {
    assert.ok(!contains(outside), outside);
  }
  assert.ok(!addressList([])("10.0.0.1"));
});

test("a block may contain all addresses, or only one", () => {
  const all = addressList(["0.0.0.0/0"]);
  assert.ok(all("203.0.113.9"));
  assert.ok(!all("2001:db8::1"));
  const one = addressList(["203.0.113.9/32"]);
  assert.ok(one("203.0.113.9") && !one("203.0.113.8"));
});

test("only addresses and blocks are accepted", () => {
  for (const good of ["10.0.0.1", "10.0.0.1/8", "::/0", "fd00::1/128"]) {
    assert.ok(isAddressBlock(good), good);
  }
  for (const bad of [
    "",
    "10.0.0",
    "10.0.0.0/33",
    "::/129",
    "10.0.0.0/",
    "10.0.0.0/-1",
    "a.b",
    "fe80::1%1",
  ]) {
    assert.ok(!isAddressBlock(bad), bad);
  }
});

const cases: readonly [string, number, string][] = [
  ["192.0.2.1", 64, "192.0.2.1"],
  ["::ffff:192.0.2.1", 64, "192.0.2.1"],
  ["::FFFF:c000:201", 64, "192.0.2.1"],
  ["2001:db8:0:7::1", 64, "2001:db8:0:7::/64"],
  ["2001:DB8:0:7:ffff:ffff:ffff:ffff", 64, "2001:db8:0:7::/64"],
  ["2001:db8::7:0:0:0:1", 64, "2001:db8:0:7::/64"],
  ["2001:db8:0:7::1", 56, "2001:db8:0:0::/56"],
  ["2001:db8:0:1ff::1", 56, "2001:db8:0:100::/56"],
  ["2001:db8:0:7::1", 48, "2001:db8:0::/48"],
  ["2001:db8:1:2:3:4:5:6", 128, "2001:db8:1:2:3:4:5:6/128"],
  ["::1", 64, "0:0:0:0::/64"],
  ["::", 64, "0:0:0:0::/64"],
  ["1::", 64, "1:0:0:0::/64"],
  ["fe80::1%eth0", 64, "fe80:0:0:0::/64"],
  ["64:ff9b::192.0.2.1", 128, "64:ff9b:0:0:0:0:c000:201/128"],
];
for (const [address, prefix, key] of cases) {
  test(`${address} counts as ${key}`, () => {
    assert.equal(addressKey(address, prefix), key);
  });
}

test("the network is 64 bits wide by default", () => {
  assert.equal(addressKey("2001:db8::1"), "2001:db8:0:0::/64");
});

for (const text of ["unknown", "", ":", "1:2", "1:2:3:4:5:6:7:8:9", "1::2::3", "g::1", "12345::"]) {
  test(`text that is not an address is returned unchanged: "${text}"`, () => {
    assert.equal(addressKey(text), text);
  });
}
