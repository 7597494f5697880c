/** Tests of the protocol with the dstack agent, with a fake agent. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";
import { hasDstack, openDstack } from "../../../../plugins/confidential/evidence/dstack.ts";
import { createSimulatedPlatform } from "../../../../plugins/confidential/evidence/simulated.ts";
import { temporaryFolder } from "../../../store/folder.ts";
import { codeOf, unwrap } from "../protocol/session.ts";
import { createSnpPlatform } from "../verify/snp-platform.ts";

const now = Date.UTC(2026, 10, 21, 12);
const platform = await createSimulatedPlatform(new Uint8Array(32).fill(1));
const snp = await createSnpPlatform();
const reportData = new Uint8Array(64).fill(9);
const { signal } = new AbortController();

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
    assert.equal(provider.simulated, false);
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
