import assert from "node:assert/strict";
import { test } from "node:test";
import { etagOf, matchesEtag } from "../../src/http/etag.ts";

const etag = etagOf("content");

test("a tag depends only on the content, as text or as bytes", () => {
  assert.match(etag, /^"[\w-]{22}"$/);
  assert.equal(etagOf(Buffer.from("content")), etag);
  assert.notEqual(etagOf("other content"), etag);
});

test("If-None-Match is a list of strong or weak tags, or `*`", () => {
  for (const sent of [etag, `W/${etag}`, `"a", ${etag}`, `"a",W/${etag} , "b"`, "*"]) {
    assert.equal(matchesEtag(sent, etag), true, sent);
  }
  for (const sent of [undefined, "", '"a"', etag.slice(1), etag.toUpperCase(), "**"]) {
    assert.equal(matchesEtag(sent, etag), false, String(sent));
  }
});
