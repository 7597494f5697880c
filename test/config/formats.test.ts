/** Tests of the parsers of those formats of pipeline.yaml that accept only a part of a larger form. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { formats } from "../../src/config/formats.ts";

test("https-url accepts an origin with a path, over TLS or on this machine", () => {
  const { test: accepts, pattern } = formats["https-url"];
  const good = [
    "https://id.example.com",
    "https://id.example.com:8443/realms/main/",
    "https://[2001:db8::1]/a@b",
    "http://127.0.0.1:8080/realms/main",
    "http://localhost",
  ];
  for (const url of good) {
    assert.ok(accepts(url), url);
    assert.match(url, new RegExp(pattern));
  }
  const bad = [
    "http://id.example.com",
    "ftp://id.example.com",
    "id.example.com",
    "https://",
    "https://id.example.com/?tenant=1",
    "https://id.example.com?",
    "https://id.example.com/#main",
    "https://id.example.com/#",
    "https://user@id.example.com",
    "https://user:secret@id.example.com/",
    "https://:secret@id.example.com/",
    "http://user@localhost",
  ];
  for (const url of bad) assert.ok(!accepts(url), url);
});
