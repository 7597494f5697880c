/** Tests of the parser of lists of addresses and CIDR blocks. */
import assert from "node:assert/strict";
import { test } from "node:test";
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
