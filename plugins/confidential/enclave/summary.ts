/** The `final` frame, which is encrypted for the client, and the signed report, which everyone may read. */
import type { Clock } from "sluice-gateway/plugin";
import type { WatchedExchange } from "../protocol/frame-watch.ts";
import { toBase64Url, utf8 } from "../protocol/encoding.ts";
import { reportMessage, writeReport } from "../protocol/usage-report.ts";
import { usageOf } from "../protocol/text-frames.ts";
import type { SignedReport } from "../protocol/verify-usage-report.ts";
import { toHex } from "../verify/binary-text.ts";
import { tokensOf, type AnswerOutcome } from "./answer.ts";
import type { EnclaveIdentity } from "./identity.ts";
import type { EstablishedSession } from "./handshake.ts";

export interface Summary {
  readonly final: Uint8Array;
  /** `watched`: all frames of the request and its answer, including `final`. */
  report(watched: WatchedExchange): Promise<SignedReport>;
}

interface SummaryDeps {
  readonly identity: EnclaveIdentity;
  readonly clock: Clock;
  readonly coefficient?: number;
}

export function summarize(
  outcome: AnswerOutcome,
  session: EstablishedSession,
  deps: SummaryDeps,
): Summary {
  const { finishReason, finish, result, error } = outcome;
  const { hello, keyset, id, th } = session;
  const { identity, clock, coefficient } = deps;
  const tokens = tokensOf(result, hello.maxOutputTokens);
  const final = { finish_reason: finishReason, usage: usageOf(tokens), error };
  return {
    final: utf8(JSON.stringify(final)),
    async report({ rid, reqDigest, resDigest }) {
      const report = writeReport({
        coefficient: coefficient ?? result?.worker.pricing.coefficient ?? 1000,
        ctr: keyset.ctr(),
        finish,
        iat: Math.floor(clock.now() / 1000),
        keyset: keyset.digest,
        model: hello.model,
        net: identity.net,
        reqDigest,
        resDigest,
        rid,
        session: toBase64Url(id),
        th: toHex(th),
        tokens,
      });
      // `readHello` has checked that all names in `hello` are well-formed.
      if (report === undefined) throw new TypeError("the report cannot be written");
      return { report, sig: await keyset.ur.sign(reportMessage(report)) };
    },
  };
}
