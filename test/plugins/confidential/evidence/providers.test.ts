/** Tests of the protocols with the kernel and with the dstack agent, which make quotes: both are fakes. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import {
  errorCode,
  kernelFiles,
  openConfigfsTsm,
} from "../../../../plugins/confidential/evidence/configfs-tsm.ts";
import type { EvidenceProvider } from "../../../../plugins/confidential/evidence/provider.ts";
import { createSimulatedPlatform } from "../../../../plugins/confidential/evidence/simulated.ts";
import type { TdxCollateral } from "../../../../plugins/confidential/verify/tdx-collateral.ts";
import { verifyEvidence } from "../../../../plugins/confidential/verify/verify.ts";
import { codeOf, unwrap } from "../protocol/session.ts";
import { createSnpPlatform } from "../verify/snp-platform.ts";
import { failures } from "../verify/real-quotes.ts";
import { fakeKernel, kernelError, type FakeDriver } from "./kernel.ts";
import { temporaryFolder } from "../../../store/folder.ts";
import { hasDstack, openDstack } from "../../../../plugins/confidential/evidence/dstack.ts";

const now = Date.UTC(2026, 10, 21, 12);
const platform = await createSimulatedPlatform(new Uint8Array(32).fill(1));
const snp = await createSnpPlatform();
const reportData = new Uint8Array(64).fill(9);
const { signal } = new AbortController();

function tdxQuote(inblob: Uint8Array): Buffer {
  return Buffer.from(platform.evidence(inblob, now).quote, "base64");
}

const tdx: FakeDriver = { provider: "tdx_guest", report: tdxQuote };

/** A report for the requested data, of a chip whose certificates are in the certificate table. */
const sev: FakeDriver = {
  provider: "sev_guest",
  report: (inblob) => Buffer.from(snp.evidence({ report: { 0x50: inblob } }).quote, "base64"),
  auxblob: Buffer.from(snp.evidence().aux ?? "", "base64"),
};

async function opened(driver: FakeDriver): Promise<{
  provider: EvidenceProvider;
  kernel: ReturnType<typeof fakeKernel>;
}> {
  const kernel = fakeKernel(driver);
  return { provider: unwrap(await openConfigfsTsm("any", { files: kernel })), kernel };
}

describe("quotes from configfs", () => {
  test("a TDX guest gets a quote with the requested report data", async () => {
    const { provider, kernel } = await opened(tdx);
    assert.equal(provider.teeType, "tdx");
    const evidence = unwrap(await provider.quote(reportData, signal));
    assert.deepEqual(evidence, {
      tee_type: "tdx",
      quote: platform.evidence(reportData, now).quote,
    });
    assert.deepEqual(kernel.writes, ["inblob 64"]);
    assert.equal(kernel.items.size, 0);
  });

  test("collateral is added if it is available, and a quote is returned without it otherwise", async () => {
    const known = platform.evidence(reportData, now).collateral as TdxCollateral;
    const kernel = fakeKernel(tdx);
    let given: TdxCollateral | undefined = known;
    const collateral = (): Promise<TdxCollateral | undefined> => Promise.resolve(given);
    const provider = unwrap(await openConfigfsTsm("tdx", { files: kernel, collateral }));
    assert.equal(unwrap(await provider.quote(reportData, signal)).collateral, known);
    given = undefined;
    assert.equal("collateral" in unwrap(await provider.quote(reportData, signal)), false);
  });

  test("a SEV-SNP guest gets a valid report with its certificates", async () => {
    const { provider, kernel } = await opened(sev);
    assert.equal(provider.teeType, "sev-snp");
    const evidence = unwrap(await provider.quote(reportData, signal));
    const sevSnp = { minTcb: "any", requireCrl: false } as const;
    const policy = { imageHashes: "any", sevSnp } as const;
    const verdict = await verifyEvidence(evidence, { reportData }, policy, now, snp.roots);
    assert.deepEqual(failures(verdict), []);
    assert.deepEqual(kernel.writes, ["inblob 64"]);
  });

  test("AMD's revocation list is added to the certificates of a SEV-SNP report", async () => {
    const list = snp.revocationList([], now - 1, now + 60_000);
    const asked: string[] = [];
    let given: typeof list | undefined = list;
    const kernel = fakeKernel(sev);
    const provider = unwrap(
      await openConfigfsTsm("sev-snp", {
        files: kernel,
        revocationLists(product) {
          asked.push(product);
          return Promise.resolve(given);
        },
      }),
    );
    assert.equal(provider.staples, true);
    const evidence = unwrap(await provider.quote(reportData, signal));
    const policy = { imageHashes: "any", sevSnp: { minTcb: { Milan: { snp: 8 } } } } as const;
    const verdict = await verifyEvidence(evidence, { reportData }, policy, now, snp.roots);
    assert.deepEqual(failures(verdict), []);
    assert.deepEqual(asked, ["Milan"]);
    given = undefined;
    const without = unwrap(await provider.quote(reportData, signal));
    assert.deepEqual(
      failures(await verifyEvidence(without, { reportData }, policy, now, snp.roots)),
      ["revocation"],
    );
  });

  test("under a paravisor the report has the privilege level that the guest may use", async () => {
    const { provider, kernel } = await opened({ ...sev, privilegeFloor: 2 });
    unwrap(await provider.quote(reportData, signal));
    assert.deepEqual(kernel.writes, ["privlevel 2", "inblob 64"]);
  });

  test("requests run one after the other, and a failure does not block the others", async () => {
    let fail = false;
    const { provider, kernel } = await opened({
      ...tdx,
      report(inblob) {
        fail = !fail;
        if (fail) throw kernelError("EIO");
        return tdxQuote(inblob);
      },
    });
    const asked = Array.from({ length: 6 }, () => provider.quote(reportData, signal));
    const kinds = (await Promise.all(asked)).map((made) => "kind" in made);
    assert.deepEqual(kinds, [true, false, true, false, true, false]);
    assert.equal(kernel.maxAtOnce, 1);
    assert.equal(kernel.items.size, 0);
  });
});

describe("a quote that must not be used", () => {
  const bad: Record<string, Partial<FakeDriver>> = {
    "another process wrote to the same report": { isDisturbed: true },
    "the quote has other report data": { report: () => tdxQuote(new Uint8Array(64).fill(1)) },
    "the quote is empty": { report: () => new Uint8Array() },
    "the quote is garbage": { report: () => new Uint8Array(5000).fill(4) },
    "the quote is cut short": { report: (inblob) => tdxQuote(inblob).subarray(0, -200) },
  };
  for (const code of ["ENXIO", "EBUSY", "EFBIG", "EINVAL", "EIO", "ETIMEDOUT"]) {
    bad[`the kernel says ${code}`] = {
      report() {
        throw kernelError(code);
      },
    };
  }
  for (const [why, change] of Object.entries(bad)) {
    test(`${why}: the fault does not contain the kernel's text, and no folder remains`, async () => {
      const { provider, kernel } = await opened({ ...tdx, ...change });
      const made = await provider.quote(reportData, signal);
      assert.equal(codeOf(made), "ATTESTATION_UNAVAILABLE");
      assert.doesNotMatch(JSON.stringify(made), /secret/);
      assert.equal(kernel.items.size, 0);
    });
  }

  test("report data of another length is refused", async () => {
    const { provider } = await opened({
      ...tdx,
      report: (inblob) => tdxQuote(Buffer.concat([inblob, Buffer.alloc(64 - inblob.length)])),
    });
    const made = await provider.quote(new Uint8Array(63), signal);
    assert.equal(codeOf(made), "ATTESTATION_UNAVAILABLE");
  });
});

describe("a machine without the requested TEE", () => {
  test("has no configfs, or an unknown driver, or another TEE", async () => {
    for (const code of ["ENOENT", "EACCES", "ENXIO", "EROFS"]) {
      const kernel = fakeKernel({ ...tdx, refuses: code });
      assert.equal(
        codeOf(await openConfigfsTsm("any", { files: kernel })),
        "ATTESTATION_UNAVAILABLE",
      );
    }
    const strange = fakeKernel({ ...tdx, provider: "arm_cca_guest" });
    assert.equal(
      codeOf(await openConfigfsTsm("any", { files: strange })),
      "ATTESTATION_UNAVAILABLE",
    );
    assert.equal(strange.items.size, 0);
    const other = fakeKernel(tdx);
    assert.equal(
      codeOf(await openConfigfsTsm("sev-snp", { files: other })),
      "ATTESTATION_UNAVAILABLE",
    );
    assert.equal(other.items.size, 0);
  });
});

test("files are written without being created or truncated", async (t) => {
  const folder = temporaryFolder(t);
  const path = join(folder, "inblob");
  await assert.rejects(kernelFiles.write(path, Buffer.from("ab")), { code: "ENOENT" });
  writeFileSync(path, "0123456789");
  await kernelFiles.write(path, Buffer.from("ab"));
  assert.equal(readFileSync(path, "utf8"), "ab23456789");
  assert.deepEqual(await kernelFiles.read(path), Buffer.from("ab23456789"));
});

test("a folder is created, and removed only if it is empty", async (t) => {
  const folder = join(temporaryFolder(t), "report");
  await kernelFiles.mkdir(folder);
  await assert.rejects(kernelFiles.mkdir(folder), { code: "EEXIST" });
  writeFileSync(join(folder, "mine"), "");
  await assert.rejects(kernelFiles.rmdir(folder), { code: "ENOTEMPTY" });
});

test("an error without a system code is a bug, and is thrown again", () => {
  assert.equal(errorCode(Object.assign(new Error("x"), { code: "EBUSY" })), "EBUSY");
  assert.throws(() => errorCode(new TypeError("x")), TypeError);
});

interface Agent {
  readonly path: string;
  readonly asked: readonly string[];
}

/** `answer`: returns the body for the 64 requested bytes, or a status for an answer without a body. */
async function startAgent(
  t: TestContext,
  answer: (data: Buffer) => object | string | number,
): Promise<Agent> {
  const path = join(temporaryFolder(t), "dstack.sock");
  const asked: string[] = [];
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await textOf(request);
    asked.push(`${request.method} ${request.url} ${body}`);
    const { report_data: hex } = JSON.parse(body) as { report_data: string };
    const said = answer(Buffer.from(hex, "hex"));
    response.statusCode = typeof said === "number" ? said : 200;
    response.end(typeof said === "object" ? JSON.stringify(said) : String(said));
  };
  const server = createServer((request, response) => void serve(request, response));
  server.listen(path);
  await once(server, "listening");
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { path, asked };
}

async function textOf(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

function tdxAnswer(data: Uint8Array): object {
  const quote = Buffer.from(platform.evidence(data, now).quote, "base64").toString("hex");
  return { quote, event_log: '[{"imr":3}]', report_data: Buffer.from(data).toString("hex") };
}

describe("quotes from dstack's agent", () => {
  test("a TDX quote has the requested report data and the event log", async (t) => {
    const agent = await startAgent(t, tdxAnswer);
    const provider = unwrap(await openDstack({ sockets: ["/none", agent.path] }, signal));
    assert.equal(provider.teeType, "tdx");
    const evidence = unwrap(await provider.quote(reportData, signal));
    assert.deepEqual(evidence, {
      tee_type: "tdx",
      quote: platform.evidence(reportData, now).quote,
      event_log: '[{"imr":3}]',
    });
    const hex = Buffer.from(reportData).toString("hex");
    assert.equal(agent.asked.at(-1), `POST /GetQuote {"report_data":"${hex}"}`);
  });

  test("on SEV-SNP the report is found in the agent's envelope", async (t) => {
    const agent = await startAgent(t, (data) => {
      const report = Buffer.from(snp.evidence({ report: { 0x50: data } }).quote, "base64");
      // The report data also occurs in the envelope before the report.
      const envelope = Buffer.concat([
        Buffer.alloc(7, 1),
        data,
        Buffer.alloc(100, 2),
        report,
        data,
      ]);
      return { quote: "", attestation: envelope.toString("hex") };
    });
    const provider = unwrap(await openDstack({ sockets: [agent.path] }, signal));
    assert.equal(provider.teeType, "sev-snp");
    const evidence = unwrap(await provider.quote(reportData, signal));
    const report = snp.evidence({ report: { 0x50: reportData } }).quote;
    // The signature differs each time, but the signed bytes are the same.
    assert.equal(evidence.quote.slice(0, 800), report.slice(0, 800));
    assert.equal(Buffer.from(evidence.quote, "base64").length, 1184);
  });

  test("DSTACK_SIMULATOR_ENDPOINT is not followed", async (t) => {
    const agent = await startAgent(t, tdxAnswer);
    process.env["DSTACK_SIMULATOR_ENDPOINT"] = agent.path;
    t.after(() => delete process.env["DSTACK_SIMULATOR_ENDPOINT"]);
    assert.equal(codeOf(await openDstack({ sockets: ["/none"] }, signal)), unavailable);
    assert.equal(hasDstack(["/none"]), false);
    assert.equal(hasDstack(["/none", agent.path]), true);
    assert.deepEqual(agent.asked, []);
  });
});

const unavailable = "ATTESTATION_UNAVAILABLE";

describe("an agent with an unusable answer", () => {
  const bad: Readonly<Record<string, (data: Buffer) => object | string | number>> = {
    "another status": () => 500,
    "no JSON": () => "<html>",
    "no object": () => "[]",
    "no quote": () => ({}),
    "a quote that is not hex": () => ({ quote: "zz" }),
    "a quote for something else": () => tdxAnswer(new Uint8Array(64).fill(1)),
    "a quote of garbage": () => ({ quote: "04".repeat(5000) }),
    "an envelope without a report": (data) => ({ quote: "", attestation: data.toString("hex") }),
    "more than 4 MiB": () => "x".repeat(5 * 1024 * 1024),
  };
  for (const [what, answer] of Object.entries(bad)) {
    test(`${what} is a fault`, async (t) => {
      const agent = await startAgent(t, answer);
      assert.equal(codeOf(await openDstack({ sockets: [agent.path] }, signal)), unavailable);
    });
  }

  test("an agent that stops answering is a fault, and a caller that leaves does not wait", async (t) => {
    const agent = await startAgent(t, tdxAnswer);
    const provider = unwrap(await openDstack({ sockets: [agent.path] }, signal));
    assert.equal(codeOf(await provider.quote(reportData, AbortSignal.abort())), unavailable);
  });
});
