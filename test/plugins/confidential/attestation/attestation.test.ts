/** Quotes of the service `attestation`, and the algorithm that chooses and limits its providers, with fake drivers. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, describe, test } from "node:test";
import type { Attestation, Quote } from "sluice-gateway/services";
import { createAttestation } from "../../../../plugins/confidential/attestation/attestation.ts";
import plugin from "../../../../plugins/confidential/attestation/index.ts";
import type { ProviderDeps } from "../../../../plugins/confidential/evidence/open-provider.ts";
import { createSimulatedPlatform } from "../../../../plugins/confidential/evidence/simulated.ts";
import { testService } from "../../../../plugins/contracts/testing.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { fakeHost } from "../../fakes.ts";
import { codeOf, unwrap } from "../protocol/session.ts";
import { fakeKernel, kernelError, type FakeDriver } from "../evidence/kernel.ts";

const now = Date.UTC(2026, 10, 21, 12);
const seed = new Uint8Array(32).fill(1);
const platform = await createSimulatedPlatform(seed);
const reportData = new Uint8Array(64).fill(9);
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
  const { signal } = new AbortController();
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
    const { signal } = new AbortController();
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
    const { signal } = new AbortController();
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
