import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import {
  collateralFile,
  collateralService,
} from "../../../../plugins/confidential/evidence/collateral.ts";
import { createSimulatedPlatform } from "../../../../plugins/confidential/evidence/simulated.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { temporaryFolder } from "../../../store/folder.ts";

const now = Date.UTC(2026, 10, 21, 12);
const platform = await createSimulatedPlatform(new Uint8Array(32).fill(1));
const { quote, collateral } = platform.evidence(new Uint8Array(64), now);
assert.ok(collateral !== undefined);
const { signal } = new AbortController();

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
