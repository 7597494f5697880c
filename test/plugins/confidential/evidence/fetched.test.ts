/** Tests the values that evidence needs and that are fetched at most once an hour: collateral and revocation lists. */
import assert from "node:assert/strict";
import { test, describe } from "node:test";
import { setImmediate } from "node:timers/promises";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { HourlyValue } from "../../../../plugins/confidential/evidence/hourly-value.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import {
  collateralFile,
  collateralService,
} from "../../../../plugins/confidential/evidence/collateral.ts";
import { createSimulatedPlatform } from "../../../../plugins/confidential/evidence/simulated.ts";
import { temporaryFolder } from "../../../store/folder.ts";
import {
  hasRevocationList,
  revocationListService,
  stapleRevocationList,
} from "../../../../plugins/confidential/evidence/revocation-list.ts";
import { createSnpPlatform } from "../verify/snp-platform.ts";

const { signal } = new AbortController();

test("a caller that leaves does not end the fetch, whose value others get", async () => {
  const value = new HourlyValue<string>(manualClock());
  const caller = new AbortController();
  const server = Promise.withResolvers<string>();
  let isAborted: (() => boolean) | undefined;
  const left = value.get((until) => {
    isAborted = () => until.aborted;
    return server.promise;
  }, caller.signal);
  caller.abort();
  assert.equal(await left, undefined);
  assert.equal(isAborted?.(), false);
  server.resolve("value");
  await setImmediate(); // The value is stored in microtasks.
  const other = (): Promise<string> => assert.fail("the value was fetched again");
  assert.equal(await value.get(other, signal), "value");
});

test("a fetch that takes too long is aborted, and is repeated after a minute", async () => {
  const clock = manualClock();
  const value = new HourlyValue<string>(clock);
  let until: AbortSignal | undefined;
  const waiting = value.get((given) => {
    until = given;
    return new Promise(() => {});
  }, signal);
  clock.advance(5_000);
  assert.equal(await waiting, undefined);
  assert.equal(until?.aborted, true);
  clock.advance(55_000);
  assert.equal(await value.get(() => Promise.resolve("value"), signal), "value");
});

const now = Date.UTC(2026, 10, 21, 12);
const platform = await createSimulatedPlatform(new Uint8Array(32).fill(1));
const { quote, collateral } = platform.evidence(new Uint8Array(64), now);
assert.ok(collateral !== undefined);

describe("collateral from a file", () => {
  test("is read again for each quote", async (t) => {
    const path = join(temporaryFolder(t), "collateral.json");
    const source = collateralFile(path);
    assert.equal(await source(quote, signal), undefined);
    writeFileSync(path, JSON.stringify({ ...collateral, more: "is passed over" }));
    assert.deepEqual(await source(quote, signal), collateral);
    writeFileSync(path, "{");
    assert.equal(await source(quote, signal), undefined);
    writeFileSync(path, JSON.stringify({ ...collateral, tcb_info: "{}" }));
    assert.equal(await source(quote, signal), undefined);
  });
});

describe("collateral from a service", () => {
  test("is fetched from a PCCS over HTTP", async (t) => {
    const answers: Readonly<Record<string, { body: Uint8Array | string; chain: string }>> = {
      "/sgx/certification/v4/pckcrl": { body: Buffer.from(collateral.pck_crl, "hex"), chain: "-" },
      "/sgx/certification/v4/rootcacrl": { body: collateral.root_ca_crl, chain: "-" },
      "/tdx/certification/v4/tcb": {
        body: `{"tcbInfo":${collateral.tcb_info},"signature":"${collateral.tcb_info_signature}"}`,
        chain: collateral.tcb_info_issuer_chain,
      },
      "/tdx/certification/v4/qe/identity": {
        body: `{"enclaveIdentity":${collateral.qe_identity},"signature":"${collateral.qe_identity_signature}"}`,
        chain: collateral.qe_identity_issuer_chain,
      },
    };
    const server = createServer(({ url = "" }, response) => {
      const answer = answers[url.split("?")[0] ?? ""];
      if (answer === undefined) {
        response.writeHead(404).end();
        return;
      }
      for (const name of ["PCK-CRL", "TCB-Info", "Enclave-Identity"]) {
        response.setHeader(`SGX-${name}-Issuer-Chain`, encodeURIComponent(answer.chain));
      }
      response.end(answer.body);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    t.after(() => server.close());
    const { port } = server.address() as AddressInfo;
    const source = collateralService(`http://127.0.0.1:${port}`, manualClock());
    assert.deepEqual(await source(quote, signal), collateral);
  });

  test("that fails leaves the known collateral unchanged, and is called again after a minute", async () => {
    const clock = manualClock();
    const answers: (() => Promise<unknown>)[] = [
      () => Promise.reject(new Error("no network")),
      () => Promise.resolve(collateral),
      () => Promise.resolve({ ...collateral, qe_identity: "" }),
    ];
    let asked = 0;
    const source = collateralService("https://pccs.test", clock, () => {
      const answer = answers[asked++];
      assert.ok(answer);
      return answer();
    });
    assert.equal(await source(quote, signal), undefined);
    assert.equal(await source(quote, signal), undefined);
    assert.equal(asked, 1);
    clock.advance(60_000);
    assert.deepEqual(await source(quote, signal), collateral);
    clock.advance(3_600_000);
    assert.deepEqual(await source(quote, signal), collateral);
    assert.equal(asked, 3);
  });
});

const snp = await createSnpPlatform();
const list = snp.revocationList([], now - 1, now + 86_400_000);

describe("AMD's revocation list", () => {
  test("is fetched once per hour and product, and sooner after a failure", async () => {
    const clock = manualClock(now);
    const asked: string[] = [];
    let answer: Uint8Array | Error = new Error("no route");
    const source = revocationListService("https://kds.example/", clock, (url) => {
      asked.push(url);
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    });
    assert.equal(await source("Milan", signal), undefined);
    answer = list;
    assert.equal(await source("Milan", signal), undefined);
    clock.advance(60_000);
    assert.deepEqual(await source("Milan", signal), list);
    assert.deepEqual(await source("Genoa", signal), list);
    // An invalid list does not replace the previous one.
    for (answer of [new Uint8Array(20), new Uint8Array(40_000), new Error("gone")]) {
      clock.advance(3_600_000);
      assert.deepEqual(await source("Milan", signal), list);
    }
    assert.deepEqual(asked.slice(0, 3), [
      "https://kds.example/vcek/v1/Milan/crl",
      "https://kds.example/vcek/v1/Milan/crl",
      "https://kds.example/vcek/v1/Genoa/crl",
    ]);
    assert.equal(asked.length, 6);
  });

  test("replaces the list that the host included, and other evidence is unchanged", async () => {
    const old = snp.revocationList([], now - 10, now - 5);
    const evidence = snp.evidence({ table: { crl: old } });
    const stapled = await stapleRevocationList(evidence, () => Promise.resolve(list), signal);
    const aux = Buffer.from(stapled.aux ?? "", "base64");
    assert.equal(aux.includes(list), true);
    assert.equal(aux.includes(old), false);
    const bare = snp.evidence();
    assert.equal(hasRevocationList(stapled), true);
    assert.equal(hasRevocationList(bare), false);
    const { aux: _, ...tableless } = bare;
    const garbled = { ...bare, aux: "AAAA" };
    for (const other of [tableless, garbled, { tee_type: "tdx", quote: "" } as const]) {
      const source = (): Promise<typeof list> => Promise.resolve(list);
      assert.equal(await stapleRevocationList(other, source, signal), other);
      assert.equal(hasRevocationList(other), false);
    }
  });
});
