/** A quote of real hardware through `sluice connect`: replayed evidence, because it binds the keys of another enclave. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { describeVerification } from "../../../../plugins/confidential/commands/connect-output.ts";
import type { SealedNetworks } from "../../../../plugins/confidential/sealed-networks/sealed-networks.ts";
import { verificationOf } from "../../../../plugins/confidential/sealed-networks/verification.ts";
import { verifyEvidence } from "../../../../plugins/confidential/verify/verify.ts";
import { realTdx, skipWithoutShared as skip, tdxEvidence } from "../verify/real-quotes.ts";
import { secret, startLocalGateway } from "./local-gateway.ts";

const inTime = { timeout: 30_000, skip };
const image = "b260fa9168ca9f28e7f15f128a45ac31c419705b31a60feac30b322ee06bc752";

describe("real evidence", () => {
  test("a TDX quote of another enclave is refused, and shown", inTime, async (t) => {
    const { quote, collateral, now } = realTdx();
    const local = await startLocalGateway(t, {
      at: now,
      evidence: { image_hashes: [image] },
      script: {
        evidence: () => tdxEvidence(quote, collateral),
        keyset: { notAfter: now / 1000 + 3000 },
      },
    });
    // The service has this type.
    const sealed = local.gateway.use("sealed-networks") as SealedNetworks;
    const verification = (await sealed.verify()) ?? assert.fail("nothing was verified");
    const found = verification.checks.filter(({ result }) => result === "fail");
    assert.deepEqual(
      found.map((check) => check.name),
      ["report_data"],
    );
    assert.match(
      describeVerification(verification),
      /machine +811dca2a.*firmware +UpToDate.*image +b260fa91.*passed +.*dcap_qvl.*image_hash/s,
    );
    assert.equal((await local.ask()).status, 502);
    assert.equal(local.remote.frames, 0);
    assert.ok(!local.sent().includes(secret));
  });

  test("a TDX quote of the session's own keys is printed as verified", inTime, async () => {
    const { quote, collateral, now, reportData } = realTdx();
    const policy = { imageHashes: [image] };
    const expected = { reportData };
    const report = await verifyEvidence(tdxEvidence(quote, collateral), expected, policy, now);
    const { assurance, checks } = report;
    const about = { network: "confidential-alpha", model: "demo", termination: "worker" } as const;
    const shown = { ...about, assurance, evidence: report, keyset: "sha256:00", checks };
    const session = { ...shown, expiresAt: now + 3_600_000 };
    const text = describeVerification(verificationOf(session, "https://gateway.example", now));
    assert.match(text, /^verified: the answers come from an enclave that hardware attests\./);
    assert.match(text, /machine +tdx 811dca2a26b952e85bb6448b097ba4fd\n +firmware +UpToDate\n/);
    assert.match(text, new RegExp(`image +${image}`));
    assert.match(
      text,
      /since +2025-06-20.*until +2025-06-20T01:00:00\.000Z; checked again before/s,
    );
    assert.doesNotMatch(text, /^ +(failed|accepted) /m);
  });
});
