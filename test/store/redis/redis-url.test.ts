import assert from "node:assert/strict";
import { test } from "node:test";
import { hostsOf, parseRedisUrl } from "../../../src/store/redis/redis-url.ts";

const server = { kind: "server", isTls: false, db: 0, master: "" };

const good = [
  ["redis://cache", { ...server, hosts: [{ host: "cache", port: 6379 }] }],
  ["redis://cache:80/", { ...server, hosts: [{ host: "cache", port: 80 }] }],
  [
    "redis://user:p%40ss:word@10.0.0.1:7000/3",
    {
      ...server,
      hosts: [{ host: "10.0.0.1", port: 7000 }],
      username: "user",
      password: "p@ss:word",
      db: 3,
    },
  ],
  [
    "rediss://:secret@[::1]:6380",
    { ...server, isTls: true, hosts: [{ host: "::1", port: 6380 }], password: "secret" },
  ],
  [
    "redis+sentinel://:secret@a:1,b/my-master/2",
    {
      ...server,
      kind: "sentinel",
      hosts: [
        { host: "a", port: 1 },
        { host: "b", port: 26_379 },
      ],
      password: "secret",
      db: 2,
      master: "my-master",
    },
  ],
  [
    "redis+cluster://a:7000,b:7001",
    {
      ...server,
      kind: "cluster",
      hosts: [
        { host: "a", port: 7000 },
        { host: "b", port: 7001 },
      ],
    },
  ],
] as const;
for (const [url, place] of good) {
  test(`reads ${url}`, () => assert.deepEqual(parseRedisUrl(url), place));
}

const bad = [
  "",
  "cache:6379",
  "http://cache",
  "redis:cache",
  "redis://",
  "redis://a,b",
  "redis://cache:port",
  "redis://cache:70000",
  "redis://cache/name",
  "redis://cache/1/2",
  "redis://cache?db=1",
  "redis://us%er@cache",
  "redis+sentinel://a,b",
  "redis+sentinel://a,,b/main",
  "redis+sentinel://a/main/x",
  "redis+cluster://a/1",
  "rediss+cluster://a",
  "toString://a",
];
for (const url of bad) {
  test(`refuses ${JSON.stringify(url)}`, () => assert.equal(parseRedisUrl(url), undefined));
}

test("messages name the hosts without user and password", () => {
  const place = parseRedisUrl("redis+cluster://user:secret@a:7000,b");
  assert.equal(place && hostsOf(place), "a:7000, b:6379");
});
