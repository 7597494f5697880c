/** Tests of the parser of pipeline.yaml: defaults, conversions, and positions of faults. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import * as fc from "fast-check";
import type { Config } from "../../src/config/config.ts";
import type { Environment } from "../../src/config/environment.ts";
import { parseConfig } from "../../src/config/parse-config.ts";
import { readConfig } from "../../src/config/read.ts";
import { shippedServices } from "../../src/pipeline/load/modules.ts";
import { temporaryFolder } from "../store/folder.ts";

const folder = import.meta.dirname;
const file = join(folder, "pipeline.yaml");
const root = join(folder, "..", "..");
const services = await shippedServices();

function read(text: string, env: Environment = {}): Config {
  const { config, faults } = parseConfig(text, file, env, services);
  assert.deepEqual(faults, []);
  assert.ok(config !== undefined);
  return config;
}

function upstreamIn(config: Config | undefined, name: string): Record<string, unknown> {
  const section = config?.sections["upstreams"] as Record<string, Record<string, unknown>>;
  return section[name] ?? {};
}

const routes = "routes: [{ path: /a, to: echo }]\n";

test("missing settings have the documented defaults", () => {
  const config = read(`version: 1\n${routes}`);
  assert.equal(config.environment, "dev");
  assert.deepEqual(config.server, {
    host: "127.0.0.1",
    port: 8080,
    trustProxy: [],
    drainSeconds: 30,
    drainDelaySeconds: 1,
    ready: "any",
    headersMs: 10_000,
    bodyIdleMs: 30_000,
    connections: 10_000,
    keepAliveMs: 65_000,
    threads: 1,
    fastPath: true,
  });
  assert.deepEqual(config.admin, { host: "127.0.0.1", port: 9090, hosts: [], trustProxy: [] });
  assert.deepEqual(config.log, { level: "info" });
  assert.deepEqual(config.unmatched, []);
  assert.deepEqual(config.fastify, []);
  assert.equal(config.routes[0]?.methods[0], "*");
  assert.equal(config.routes[0]?.websocket, false);
});

test("the store's folder is relative to the file; an empty variable omits an optional url", () => {
  const text = `version: 1\nstore: { data: "\${DATA_DIR:-./data}", redis: "\${REDIS_URL:-}" }\n${routes}`;
  const { data, redis } = read(text, { REDIS_URL: "" }).store;
  assert.equal(data, join(folder, "data"));
  assert.equal(redis, undefined);
  assert.equal(read(text, { DATA_DIR: "/var/lib/sluice" }).store.data, "/var/lib/sluice");
});

test("a value from the environment is converted to the type that the schema requires", () => {
  const config = read(
    `version: 1
environment: \${GATEWAY_ENV}
server: { port: "\${PORT}", drainSeconds: "\${DRAIN}", threads: "\${THREADS}" }
upstreams: { a: { urls: "http://a", singleFlight: "\${SHARE}" } }
${routes}`,
    { GATEWAY_ENV: "stage", PORT: "81", DRAIN: "1.5", THREADS: "2", SHARE: "false" },
  );
  assert.equal(config.environment, "stage");
  assert.equal(config.server.port, 81);
  assert.equal(config.server.drainSeconds, 1.5);
  // This one may also be the text "auto".
  assert.equal(config.server.threads, 2);
  assert.equal(upstreamIn(config, "a")["singleFlight"], false);
});

test("steps have their modes and conditions; a step with the mode `off` is not listed", () => {
  const route = read(`version: 1
routes:
  - path: /a
    run:
      - { x: {}, mode: off }
      - { y: { n: 1 }, mode: shadow, when: { path: /a, methods: [GET], header: { X-Beta: "1" } } }
    to: echo
`).routes[0];
  assert.deepEqual(
    route?.off?.map((use) => use.name),
    ["x"],
  );
  const [step] = route.run;
  assert.equal(step?.mode, "shadow");
  assert.deepEqual(step.when, { path: "/a", methods: ["GET", "HEAD"], header: { "x-beta": "1" } });
});

test("each part of the options has its position", () => {
  const [route] = read(`version: 1
routes:
  - path: /a
    to:
      echo:
        list:
          - a
          - b: 1
        "a/b": 2
`).routes;
  const at = (pointer: string): string => {
    const { line, col } = route?.to.positionOf(pointer) ?? { line: 0, col: 0 };
    return `${line}:${col}`;
  };
  assert.equal(at(""), "5:7");
  assert.equal(at("/list/0"), "7:13");
  assert.equal(at("/list/1/b"), "8:16");
  assert.equal(at("/a~1b"), "9:16");
  assert.equal(at("/absent"), "5:7");
  assert.equal(at("/list/7"), "6:9");
});

test("positions are correct in a file with a byte order mark and CRLF", () => {
  const { faults } = parseConfig(`\uFEFFversion: 1\r\nserver: { port: x }\r\n${routes}`, file, {});
  assert.deepEqual(
    faults.map(({ at }) => at),
    [{ file, line: 2, col: 17 }],
  );
});

test("__proto__ is reported as an unknown key", () => {
  const { config, faults } = parseConfig(
    `version: 1\nserver: { __proto__: { port: 1 } }\n${routes}`,
    file,
    {},
  );
  assert.deepEqual(
    faults.map(({ code }) => code),
    ["SLUICE_KEY_UNKNOWN"],
  );
  assert.equal(config?.server.port, 8080);
});

test("a file that cannot be read is one fault", async () => {
  const missing = join(folder, "nowhere.yaml");
  const { config, faults } = await readConfig(missing, {});
  assert.equal(config, undefined);
  assert.deepEqual(
    faults.map(({ code, message, at }) => [code, message, at?.file]),
    [["SLUICE_FILE_MISSING", "the file does not exist", missing]],
  );
});

test("the shipped file uses the documented variables, and is valid without any", async () => {
  const shipped = join(root, "pipeline.yaml");
  const plain = await readConfig(shipped, {}, services);
  assert.deepEqual(plain.faults, []);
  assert.equal(upstreamIn(plain.config, "ledger")["urls"], "http://127.0.0.1:9944");
  assert.equal(plain.config?.store.data, join(root, "data"));
  const env = {
    GATEWAY_ENV: "prod",
    GATEWAY_SECRET: "at-least-sixteen-characters",
    HOST: "0.0.0.0",
    PORT: "1",
    ADMIN_PORT: "2",
    DATA_DIR: "/d",
    LEDGER_RPC_URL: "ws://n:1,http://n:2",
    LOG_LEVEL: "debug",
  };
  const { config, faults } = await readConfig(shipped, env, services);
  assert.deepEqual(faults, []);
  assert.equal(config?.environment, "prod");
  assert.equal(config.server.host, "0.0.0.0");
  assert.equal(config.server.port, 1);
  assert.equal(config.admin.port, 2);
  assert.equal(config.store.data, "/d");
  assert.equal(config.log.level, "debug");
  assert.deepEqual(upstreamIn(config, "ledger")["urls"], "ws://n:1,http://n:2");
});

test("a file that is not UTF-8 is refused, because its values would be others", async (t) => {
  const latin = join(temporaryFolder(t), "pipeline.yaml");
  writeFileSync(latin, `version: 1\nsecret: "gehörig-lang-und-geheim"\n${routes}`, "latin1");
  const { config, faults } = await readConfig(latin, {});
  assert.equal(config, undefined);
  assert.deepEqual(
    faults.map(({ code, message }) => [code, message]),
    [["SLUICE_FILE_UNREADABLE", "the file is not UTF-8 text"]],
  );
});

test("reading any file returns faults with positions and never throws", () => {
  const words = `version: 1|routes:|  - {|path: /a|to: x|}|lists:|  a: [|use: a|]|*a|&a|\${X}|server:|  port: x|plans: { free: 1 }|\t|- |? |!t`;
  const word = fc.constantFrom(...words.split("|"));
  const text = fc.array(fc.tuple(word, fc.constantFrom("\n", " ", ", ", "\n  ")), {
    maxLength: 16,
  });
  fc.assert(
    fc.property(text, (parts) => {
      const { config, faults } = parseConfig(parts.flat().join(""), file, {});
      assert.ok(config !== undefined || faults.length > 0);
      for (const { at } of faults) assert.ok(at !== undefined && at.line >= 1 && at.col >= 1);
    }),
    { numRuns: 1_000 },
  );
});
