/** Quotes of the service `attestation`, with fake drivers, and the values that evidence needs and that are fetched. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, describe, test } from "node:test";
import type { Attestation, Quote } from "sluice-gateway/services";
import { setImmediate } from "node:timers/promises";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { createAttestation } from "../../../../plugins/confidential/attestation/attestation.ts";
import plugin from "../../../../plugins/confidential/attestation/index.ts";
import type { ProviderDeps } from "../../../../plugins/confidential/evidence/open-provider.ts";
import { createSimulatedPlatform } from "../../../../plugins/confidential/evidence/simulated.ts";
import { testService } from "../../../../plugins/contracts/testing.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { fakeHost } from "../../fakes.ts";
import { codeOf, unwrap } from "../protocol/session.ts";
import { fakeKernel, kernelError, type FakeDriver } from "../evidence/kernel.ts";
import { HourlyValue } from "../../../../plugins/confidential/evidence/hourly-value.ts";
import {
  collateralFile,
  collateralService,
} from "../../../../plugins/confidential/evidence/collateral.ts";
import { temporaryFolder } from "../../../store/folder.ts";
import {
  hasRevocationList,
  revocationListService,
  stapleRevocationList,
} from "../../../../plugins/confidential/evidence/revocation-list.ts";
import { createSnpPlatform } from "../verify/snp-platform.ts";
import { listen } from "../../../../src/http/demo-server.ts";

const now = Date.UTC(2026, 10, 21, 12);
const seed = new Uint8Array(32).fill(1);
const platform = await createSimulatedPlatform(seed);
const reportData = new Uint8Array(64).fill(9);
const { signal } = new AbortController();
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

const tdx: FakeDriver = {
  provider: "tdx_guest",
  report: (inblob) => Buffer.from(platform.evidence(inblob, now).quote, "base64"),
};

const simulating = await testService(plugin);
after(() => simulating[Symbol.asyncDispose]());

function serviceWith(parts: Partial<ProviderDeps> = {}): Attestation {
  const { clock, log } = fakeHost();
  return createAttestation({ clock, log, simulatedAllowed: true, seed, ...parts });
}

async function quoteOf(data: Uint8Array | undefined, binding?: Quote["binding"]): Promise<Quote> {
  const made = await simulating.service.evidence("simulated").quote(data, signal, binding);
  assert.ok(made.kind === "quote", JSON.stringify(made));
  return made.quote;
}

describe("quotes for callers", () => {
  test("the quote contains the requested bytes unchanged, or their hash if that is requested", async () => {
    const raw = await quoteOf(reportData);
    assert.equal(raw.binding, "raw");
    assert.equal(raw.reportData, hex(reportData));
    assert.equal("preimage" in raw, false);
    assert.equal(raw.imageHash, platform.imageHash);
    assert.equal(raw.teeType, "simulated");
    assert.equal(raw.simulated, true);
    const hashed = await quoteOf(reportData, "hashed");
    const preimage = Buffer.concat([Buffer.from("platform-quote/1\0"), reportData]);
    assert.equal(hashed.binding, "hashed");
    assert.equal(hashed.preimage, hex(preimage));
    assert.equal(hashed.reportData, createHash("sha512").update(preimage).digest("hex"));
  });

  test("without requested bytes the quote binds 32 random ones, which are returned", async () => {
    const [one, other] = [await quoteOf(undefined), await quoteOf(undefined)];
    assert.notEqual(one.reportData, other.reportData);
    const preimage = Buffer.from(one.preimage ?? "", "hex");
    assert.equal(preimage.subarray(0, 17).toString(), "platform-quote/1\0");
    assert.equal(preimage.length, 17 + 32);
    assert.equal(one.reportData, createHash("sha512").update(preimage).digest("hex"));
    assert.equal(one.binding, "hashed");
  });

  test("report data with the prefix of sessions is refused, whatever follows the prefix", async () => {
    const evidence = simulating.service.evidence("simulated");
    const reserved = Buffer.alloc(64, 7);
    reserved.write("CSTRM1RD");
    for (const binding of ["raw", "hashed"] as const) {
      const made = await evidence.quote(reserved, signal, binding);
      assert.deepEqual(made, { kind: "failed", reason: "reserved" });
    }
    reserved.write("CSTRM1RE");
    assert.equal((await evidence.quote(reserved, signal)).kind, "quote");
  });
});

describe("a quote that fails", () => {
  const never: FakeDriver = {
    provider: "tdx_guest",
    report() {
      throw Object.assign(new Error("EIO"), { code: "EIO" });
    },
  };

  test("is unavailable if the platform fails or does not exist", async () => {
    const failing = serviceWith({ tsm: { files: fakeKernel(never) } });
    const absent = serviceWith({ tsm: { files: fakeKernel({ ...tdx, refuses: "ENOENT" }) } });
    for (const service of [failing, absent]) {
      const made = await service.evidence("tdx").quote(reportData, signal);
      assert.deepEqual(made, { kind: "failed", reason: "unavailable" });
    }
  });

  test("times out after 20 s, and is aborted when the caller leaves", async () => {
    const clock = manualClock();
    const { log } = fakeHost();
    const unstuck = Promise.withResolvers<void>();
    const stuck = { ...fakeKernel(tdx), mkdir: () => unstuck.promise };
    const own = createAttestation({
      clock,
      log,
      simulatedAllowed: true,
      tsm: { files: stuck },
    });
    const leaving = new AbortController();
    const left = own.evidence("tdx").quote(reportData, leaving.signal);
    leaving.abort();
    assert.deepEqual(await left, { kind: "failed", reason: "aborted" });
    const late = own.evidence("tdx").quote(reportData, new AbortController().signal);
    clock.advance(20_000);
    assert.deepEqual(await late, { kind: "failed", reason: "timeout" });
    // Requests to the driver run one after the other, so the waiting one must end.
    unstuck.reject(kernelError("EIO"));
    assert.equal(codeOf(await own.provider("tdx")), "ATTESTATION_UNAVAILABLE");
  });
});

describe("providers", () => {
  test("a simulation is refused in prod, and auto never selects it", async () => {
    await using tested = await testService(plugin, { environment: "prod" });
    const { service } = tested;
    assert.equal(codeOf(await service.provider("simulated")), "ATTESTATION_UNAVAILABLE");
    const files = fakeKernel({ ...tdx, refuses: "ENOENT" });
    const dstack = { sockets: ["/none"] };
    const lenient = serviceWith({ tsm: { files }, dstack });
    for (const source of ["auto", "dstack"] as const) {
      assert.equal(codeOf(await lenient.provider(source)), "ATTESTATION_UNAVAILABLE");
    }
    for (const refusing of [service, serviceWith({ simulatedAllowed: false })]) {
      assert.throws(() => refusing.evidence("simulated"), /refused in prod/);
    }
    assert.equal(await service.simulatedRoot(), undefined);
  });

  test("auto selects the kernel if there is no agent, and tries again after a fault", async () => {
    let driver: FakeDriver = { ...tdx, refuses: "ENOENT" };
    const files = {
      mkdir: (path: string) => kernel.mkdir(path),
      read: (path: string) => kernel.read(path),
      write: (path: string, bytes: Uint8Array) => kernel.write(path, bytes),
      rmdir: (path: string) => kernel.rmdir(path),
    };
    let kernel = fakeKernel(driver);
    const service = serviceWith({ tsm: { files }, dstack: { sockets: [] } });
    assert.equal(codeOf(await service.provider("auto")), "ATTESTATION_UNAVAILABLE");
    driver = tdx;
    kernel = fakeKernel(driver);
    assert.equal(unwrap(await service.provider("auto")).teeType, "tdx");
  });
});

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

test("callers at the same time get the value of one fetch", async () => {
  const value = new HourlyValue<string>(manualClock());
  const server = Promise.withResolvers<string>();
  const first = value.get(() => server.promise, signal);
  const second = value.get(() => assert.fail("the value was fetched again"), signal);
  server.resolve("value");
  assert.deepEqual(await Promise.all([first, second]), ["value", "value"]);
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
    const source = collateralService(await listen(server, 0, "127.0.0.1"), manualClock());
    t.after(() => server.close());
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
