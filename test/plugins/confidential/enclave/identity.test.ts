/** Tests of the state machine of an enclave's keys, with a manual clock. */
import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { describe, test } from "node:test";
import {
  createEnclaveIdentity,
  type EnclaveIdentity,
} from "../../../../plugins/confidential/enclave/identity.ts";
import type { EvidenceProvider } from "../../../../plugins/confidential/evidence/provider.ts";
import { createSimulatedProvider } from "../../../../plugins/confidential/evidence/open-provider.ts";
import { fault, isFault, type Fault } from "../../../../plugins/confidential/protocol/fault.ts";
import { readKeyset } from "../../../../plugins/confidential/protocol/keyset.ts";
import { nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { evidenceDigest } from "../../../../plugins/confidential/protocol/report-data.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import { codeOf, unwrap } from "../protocol/session.ts";

const net = "confidential-alpha";
const { signal } = new AbortController();

interface Started {
  readonly clock: ManualClock;
  readonly identity: EnclaveIdentity;
  /** The platform's answer instead of a quote. */
  failure: Fault | undefined;
  /** The report data for which the platform makes a quote instead. */
  binds: Uint8Array | undefined;
  readonly quotes: number;
  renewAfter(ms: number): Promise<void>;
}

const renewMs = 1_650_000;
const retryMs = 10_000;

async function start(failure?: Fault): Promise<Started> {
  const manual = manualClock();
  const timers = new EventEmitter();
  const clock: ManualClock = {
    ...manual,
    after(ms, task) {
      // Called at the end of a renewal.
      if (ms === renewMs || ms === retryMs) timers.emit("renewed");
      return manual.after(ms, task);
    },
  };
  const simulated = await createSimulatedProvider(new Uint8Array(32).fill(1), clock);
  const state = { failure, binds: undefined as Uint8Array | undefined, quotes: 0 };
  const provider: EvidenceProvider = {
    ...simulated,
    quote(reportData, until) {
      state.quotes++;
      if (state.failure !== undefined) return Promise.resolve(state.failure);
      return simulated.quote(state.binds ?? reportData, until);
    },
  };
  const identity = createEnclaveIdentity({ net, role: "worker", provider, clock });
  await identity.ready;
  return Object.assign(state, {
    clock,
    identity,
    async renewAfter(ms: number) {
      const renewed = once(timers, "renewed");
      clock.advance(ms);
      await renewed;
    },
  });
}

describe("an enclave's identity", () => {
  test("has a keyset of two keys, valid for less than one hour, with evidence for its digest", async () => {
    const { identity, clock } = await start();
    const held = unwrap(identity.current());
    const keyset = unwrap(readKeyset(held.keyset));
    assert.deepEqual(keyset.hs, held.hs.publicKey);
    assert.deepEqual(keyset.ur, held.ur.publicKey);
    assert.equal(keyset.net, net);
    assert.equal(keyset.role, "worker");
    assert.equal(keyset.notAfter, held.notAfter);
    assert.ok(held.notAfter - clock.now() / 1000 <= 3600);
    assert.equal(held.evidenceDigest, await evidenceDigest(nodeSuite, held.evidence));
    assert.deepEqual([held.ctr(), held.ctr(), held.ctr()], [1, 2, 3]);
    identity.close();
  });

  test("is renewed with new keys long before it expires, and sessions keep the old keyset", async () => {
    const started = await start();
    const { identity } = started;
    const old = unwrap(identity.current());
    await started.renewAfter(renewMs);
    const held = unwrap(identity.current());
    assert.notEqual(held.digest, old.digest);
    assert.notDeepEqual(held.hs.publicKey, old.hs.publicKey);
    assert.notDeepEqual(held.ur.publicKey, old.ur.publicKey);
    assert.equal(held.notAfter, old.notAfter + 1650);
    assert.equal(held.ctr(), 1);
    const message = new Uint8Array(3);
    const sig = await old.ur.sign(message);
    assert.ok(await nodeSuite.verify(old.ur.publicKey, message, sig));
    identity.close();
  });

  test("that cannot be renewed is used until it expires", async () => {
    const started = await start();
    const { identity, clock } = started;
    const old = unwrap(identity.current());
    started.failure = fault("ATTESTATION_UNAVAILABLE", "no quote");
    await started.renewAfter(renewMs);
    while (clock.now() < old.notAfter * 1000 - retryMs) await started.renewAfter(retryMs);
    assert.equal(identity.current(), old);
    await started.renewAfter(retryMs);
    assert.equal(codeOf(identity.current()), "ATTESTATION_UNAVAILABLE");
    started.failure = undefined;
    await started.renewAfter(retryMs);
    assert.equal(isFault(identity.current()), false);
    identity.close();
  });

  test("does not accept a quote that binds different report data", async () => {
    const started = await start();
    const held = unwrap(started.identity.current());
    started.binds = new Uint8Array(64).fill(3);
    const made = await started.identity.quoteFor(held, new Uint8Array(32), signal);
    assert.equal(codeOf(made), "ATTESTATION_UNAVAILABLE");
    started.identity.close();
  });
});

describe("a platform that returns incomplete evidence or none", () => {
  test("causes a fault if the stapled collateral is missing", async () => {
    const clock = manualClock();
    const simulated = await createSimulatedProvider(new Uint8Array(32).fill(1), clock);
    let has = false;
    const provider: EvidenceProvider = {
      ...simulated,
      staples: true,
      async quote(reportData, until) {
        const { collateral, ...made } = unwrap(await simulated.quote(reportData, until));
        return has && collateral ? { ...made, collateral } : made;
      },
    };
    const identity = createEnclaveIdentity({ net, role: "gateway", provider, clock });
    await identity.ready;
    assert.equal(codeOf(identity.current()), "ATTESTATION_UNAVAILABLE");
    identity.close();
    has = true;
    const next = createEnclaveIdentity({ net, role: "gateway", provider, clock });
    await next.ready;
    assert.equal(isFault(next.current()), false);
    next.close();
  });

  test("causes a fault after 20 s without an answer, or when the caller aborts", async () => {
    const clock = manualClock();
    const simulated = await createSimulatedProvider(new Uint8Array(32).fill(1), clock);
    let isStuck = false;
    const asked = Promise.withResolvers<void>();
    const provider: EvidenceProvider = {
      ...simulated,
      quote(reportData, until) {
        if (!isStuck) return simulated.quote(reportData, until);
        asked.resolve();
        return new Promise(() => {});
      },
    };
    const identity = createEnclaveIdentity({ net, role: "worker", provider, clock });
    await identity.ready;
    const held = unwrap(identity.current());
    isStuck = true;
    const late = identity.quoteFor(held, new Uint8Array(32), signal);
    await asked.promise;
    clock.advance(20_000);
    assert.equal(codeOf(await late), "ATTESTATION_UNAVAILABLE");
    const leaving = new AbortController();
    const left = identity.quoteFor(held, new Uint8Array(32), leaving.signal);
    leaving.abort();
    assert.equal(codeOf(await left), "ATTESTATION_UNAVAILABLE");
    identity.close();
  });
});

describe("quotes for a client's nonce", () => {
  test("are made for each nonce, 32 at once and then ten per second", async () => {
    const { identity, clock } = await start();
    const held = unwrap(identity.current());
    const nonces = Array.from({ length: 34 }, (_, at) => new Uint8Array(32).fill(at));
    const made = await Promise.all(nonces.map((nonce) => identity.quoteFor(held, nonce, signal)));
    const refused = made.filter((each) => isFault(each));
    assert.deepEqual(refused.map(codeOf), ["RATE_LIMITED", "RATE_LIMITED"]);
    const quotes = made.filter((each) => !isFault(each)).map((each) => JSON.stringify(each));
    assert.equal(new Set(quotes).size, 32);
    clock.advance(100);
    const nonce = new Uint8Array(32);
    assert.equal(isFault(await identity.quoteFor(held, nonce, signal)), false);
    assert.equal(codeOf(await identity.quoteFor(held, nonce, signal)), "RATE_LIMITED");
    identity.close();
  });
});
