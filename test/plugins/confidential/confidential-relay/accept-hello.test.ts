/** Admission of sessions by credential, and the HTTP routes of the encrypted stream. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { json } from "node:stream/consumers";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Capability } from "sluice-gateway/services";
import type { KeySettings } from "../../../../plugins/billing/accounts/account-store.ts";
import type { TestGateway } from "../../../../plugins/contracts/testing.ts";
import { evidenceDigest } from "../../../../plugins/confidential/protocol/report-data.ts";
import { nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { greet, openStream, openWire, type Wire } from "./stream-client.ts";
import { pageOrigin, pipeline, startStreamGateway, type StreamGateway } from "./stream-gateway.ts";
import { gate, until } from "./wait.ts";
import { followed, withFolderAccounts } from "../../billing/accounts/open-accounts.ts";

interface Refusal {
  readonly status: number;
  readonly code: string | undefined;
}

async function refused(url: string, headers: Readonly<Record<string, string>>): Promise<Refusal> {
  const sent = request(url, {
    headers: {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
      ...headers,
    },
  });
  sent.on("upgrade", () => sent.emit("error", new Error("it was accepted")));
  sent.end();
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  // The gateway's canonical envelope.
  const { error_code: code } = (await json(response)) as { error_code: string };
  return { status: response.statusCode ?? 0, code };
}

const bearer = (key: string): Record<string, string> => ({ authorization: `Bearer ${key}` });

const shownAs = (text: string): string =>
  `confidential.v1, confidential.auth.${Buffer.from(text).toString("base64url")}`;

async function ticketOf({ url, key }: TestGateway, body: object): Promise<string> {
  const response = await fetch(`${url}/v1/confidential/tickets`, {
    method: "POST",
    headers: { ...bearer(key), "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  assert.equal(response.status, 201);
  // The answer of the surface itself.
  return ((await response.json()) as { ticket: string }).ticket;
}

const protocol = { "sec-websocket-protocol": "confidential.v1" };

describe("admission of sessions", () => {
  let stream: StreamGateway;
  before(async () => {
    stream = await startStreamGateway();
  });
  after(() => stream[Symbol.asyncDispose]());

  const ticket = (body: object): Promise<string> => ticketOf(stream.gateway, body);

  function withCredential(text: string, origin?: string): Promise<Wire> {
    const shown = `confidential.auth.${Buffer.from(text).toString("base64url")}`;
    const options = { perMessageDeflate: true, ...(origin !== undefined && { origin }) };
    return openWire(stream.url, options, ["confidential.v1", shown]);
  }

  it("refuses before the upgrade: 401 without a key, 403 without the capability or from another page, 400 without the subprotocol", async () => {
    const { url, gateway } = stream;
    const reader = await gateway.issue({ capabilities: ["docs:read"] });
    assert.deepEqual(await refused(url, protocol), { status: 401, code: "GATEWAY_UNAUTHORIZED" });
    assert.deepEqual(await refused(url, { ...protocol, ...bearer(reader.key) }), {
      status: 403,
      code: "GATEWAY_PERMISSION_DENIED",
    });
    const strange = { ...protocol, ...bearer(gateway.key), origin: "https://evil.example" };
    assert.equal((await refused(url, strange)).status, 403);
    assert.equal((await refused(url, bearer(gateway.key))).status, 400);
    const other = { "sec-websocket-protocol": "confidential.v2", ...bearer(gateway.key) };
    assert.equal((await refused(url, other)).status, 400);
  });

  it("limits the open sessions of a key, including those of an earlier configuration", async () => {
    await using limited = await startStreamGateway();
    const { gateway, url } = limited;
    using first = await limited.open();
    await gateway.write(pipeline.replace("{ origins:", "{ sessionsPerKey: 2, origins:"));
    assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
    using _second = await limited.open();
    const asked = { ...protocol, ...bearer(gateway.key) };
    assert.deepEqual(await refused(url, asked), { status: 429, code: "GATEWAY_RATE_LIMITED" });
    using _neighbour = await limited.wire((await gateway.issue({ plan: "enterprise" })).key);
    first.socket.close();
    await first.closed;
    await until(async () => (await limited.gauge("sluice_stream_sessions")) === 2);
    using _third = await limited.open();
    assert.equal((await refused(url, asked)).status, 429);
  });

  it("counts a session whose client left during the handshake until the handshake has ended", async () => {
    await using limited = await startStreamGateway();
    const { gateway, url, worker } = limited;
    await gateway.write(pipeline.replace("{ origins:", "{ sessionsPerKey: 2, origins:"));
    assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
    const held = gate();
    worker.script = { greets: held.pass };
    const greeted = worker.hellos.length;
    for (let times = 1; times <= 2; times++) {
      const wire = await limited.wire();
      await greet(wire);
      await until(() => worker.hellos.length >= greeted + times);
      wire.socket.terminate();
      await wire.closed;
    }
    const asked = { ...protocol, ...bearer(gateway.key) };
    assert.deepEqual(await refused(url, asked), { status: 429, code: "GATEWAY_RATE_LIMITED" });
    held.open();
    await until(async () => (await limited.gauge("sluice_stream_sessions")) === 0);
    using _next = await limited.open();
  });

  it("selects its subprotocol and neither echoes nor logs the credential", async () => {
    using wire = await withCredential(stream.gateway.key);
    assert.equal(wire.socket.protocol, "confidential.v1");
    // Compression does not make ciphertext shorter.
    assert.equal(wire.socket.extensions, "");
    using session = await openStream(wire);
    session.ask();
    await session.answer();
    session.socket.close();
    await session.closed;
    const encoded = Buffer.from(stream.gateway.key).toString("base64url");
    const file = join(stream.gateway.folder, "access.log");
    let log = "";
    while (!/"status":101/.test(log)) log = await readFile(file, "utf8");
    const logged = log + stream.gateway.lines.join("\n");
    assert.ok(!logged.includes(encoded) && !logged.includes(stream.gateway.key));
  });

  it("accepts a ticket once, only from the page and for the model that it is bound to", async () => {
    const bound = await ticket({ origin: pageOrigin });
    const elsewhere = { "sec-websocket-protocol": shownAs(bound) };
    assert.equal((await refused(stream.url, elsewhere)).status, 401);
    using session = await openStream(await withCredential(bound, pageOrigin));
    session.ask();
    assert.equal((await session.answer()).final["finish_reason"], "stop");
    const again = { ...elsewhere, origin: pageOrigin };
    assert.equal((await refused(stream.url, again)).status, 401);

    using other = await withCredential(await ticket({ model: "Other/Model" }));
    await assert.rejects(openStream(other), /UNAUTHORIZED/);
    assert.equal(await other.closed, 4401);
  });

  it("accepts a ticket only for a session, whatever upgrade a request names", async () => {
    const shown = await ticket({});
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
    const headers = {
      upgrade: "websocket",
      "content-type": "application/json",
      "sec-websocket-protocol": shownAs(shown),
    };
    request(`${stream.gateway.url}/v1/chat/completions`, { method: "POST", headers })
      .on("response", (answer) => resolve(answer.resume().statusCode))
      .on("error", reject)
      .end("{}");
    assert.equal(await promise, 401);
    // The ticket has not been used up either.
    using session = await openStream(await withCredential(shown));
    session.ask();
    assert.equal((await session.answer()).final["finish_reason"], "stop");
  });

  it("shows a receipt only to the key that it belongs to and to administrators", async () => {
    const { gateway } = stream;
    using session = await stream.open();
    session.ask();
    const { done } = await session.answer();
    const id = Buffer.from(session.attested.core.session).toString("base64url");
    const path = `/v1/confidential/receipts/${id}/1`;
    const receipt = await (await stream.get(path, gateway.key)).json();
    assert.deepEqual(receipt, {
      session: id,
      rid: 1,
      report: done.report,
      sig: done.sig,
      evidence_digest: await evidenceDigest(nodeSuite, session.attestation.evidence),
      pricing: done.pricing,
      usedCUMilli: done.usedCUMilli,
      verified: false,
      unverified_reason: "simulated",
    });
    const stranger = await gateway.issue({ plan: "enterprise" });
    const neighbour = await gateway.issue({ capabilities: ["workspace:admin"] });
    const operator = await gateway.issue({ capabilities: ["platform:admin"] });
    assert.equal((await stream.get(path, stranger.key)).status, 404);
    assert.equal((await stream.get(path, neighbour.key)).status, 404);
    assert.equal((await stream.get(path, await colleague(gateway, "inference"))).status, 404);
    assert.equal((await stream.get(path, await colleague(gateway, "workspace:admin"))).status, 200);
    assert.equal((await stream.get(path, operator.key)).status, 200);
    assert.equal((await stream.get(path)).status, 401);
    for (const wrong of [`${id}/2`, `${id}/0`, `${id}/x`, `${id.slice(1)}/1`]) {
      const answer = await stream.get(`/v1/confidential/receipts/${wrong}`, gateway.key);
      assert.equal(answer.status, 404, wrong);
    }
  });

  it("serves evidence by its digest, and does not send it to a client that knows it", async () => {
    let kept: object | undefined;
    stream.worker.script = {
      evidence: (made, { freshness }) => (freshness === "quote" ? made : (kept ??= made)),
    };
    using first = await stream.open();
    const digest = await evidenceDigest(nodeSuite, first.attestation.evidence);
    assert.ok(digest !== undefined);
    const path = `/v1/confidential/evidence/${digest}`;
    const answer = await stream.get(path, stream.gateway.key);
    assert.deepEqual(await answer.json(), first.attestation.evidence);
    // Evidence is public and needs no key. Other tests may have used up the requests that the address has per second.
    let status = 429;
    await until(async () => {
      ({ status } = await stream.get(path));
      return status !== 429;
    });
    assert.equal(status, 200);
    for (const wrong of [`sha256:${"0".repeat(64)}`, "x"]) {
      const nothing = await stream.get(`/v1/confidential/evidence/${wrong}`, stream.gateway.key);
      assert.equal(nothing.status, 404, wrong);
    }
    using second = await stream.open({ evidence: "known", known: [digest] });
    assert.equal(second.attestation.evidence, undefined);
    assert.equal(second.attestation.evidenceDigest, digest);
    using third = await stream.open({ evidence: "known", known: [`sha256:${"0".repeat(64)}`] });
    assert.deepEqual(third.attestation.evidence, first.attestation.evidence);
    assert.ok(JSON.stringify(second.attestationJson).length < 1_500);
  });
});

async function colleague(
  { folder, workspaceId }: TestGateway,
  capability: Capability,
): Promise<string> {
  const issued = await withFolderAccounts(join(folder, "data"), (store) =>
    store.createKey(
      { name: "colleague", workspaceId, environment: "dev", capabilities: [capability] },
      { actor: "test", at: Date.now() },
    ),
  );
  assert.ok("text" in issued);
  return issued.text;
}

describe("time", () => {
  it("expires tickets after one minute and idle sessions after two minutes", async () => {
    const clock = manualClock(Date.now());
    await using stream = await startStreamGateway({ clock });
    const ticket = await ticketOf(stream.gateway, {});
    using session = await stream.open();
    // Each step is so short that the connection can answer its ping.
    const passMinute = async (): Promise<void> => {
      for (let waited = 0; waited < 60_000; waited += 10_000) {
        session.socket.ping();
        await once(session.socket, "pong");
        clock.advance(10_000);
      }
    };
    await passMinute();
    const shown = { "sec-websocket-protocol": shownAs(ticket) };
    assert.equal((await refused(stream.url, shown)).status, 401);
    await passMinute();
    const { code } = await session.nextText();
    assert.equal(code, "TIMEOUT");
    assert.equal(await session.closed, 4408);
  });

  it("applies the current capabilities and limits of the key to an open session", async () => {
    const clock = manualClock(Date.now());
    await using stream = await startStreamGateway({ clock });
    const key = await stream.gateway.issue({ plan: "enterprise" });
    const set = async (settings: KeySettings): Promise<void> => {
      await withFolderAccounts(join(stream.gateway.folder, "data"), (store) =>
        store.setKey(key.keyId, settings, { actor: "test", at: clock.now() }),
      );
      // A running gateway follows within a second.
      clock.advance(1_000);
      await followed(stream.gateway.gateway);
    };
    using session = await openStream(await stream.wire(key.key));
    session.ask();
    await session.answer();
    await set({ cuLimit24hMilli: 1 });
    session.ask();
    assert.equal((await session.nextText())["code"], "INSUFFICIENT_BALANCE");

    using other = await openStream(await stream.wire(key.key));
    await set({ cuLimit24hMilli: null });
    other.ask();
    await other.answer();
    await set({ capabilities: ["docs:read"] });
    other.ask();
    assert.equal((await other.nextText())["code"], "UNAUTHORIZED");
  });
});
