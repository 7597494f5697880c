import { createHash, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Server } from "node:https";
import { createSecureContext } from "node:tls";
import type { Clock, Log, Metrics } from "../plugin.ts";
import { messageOf } from "../base/message-of.ts";
import { errorCode } from "../base/error-code.ts";

/** Absolute paths of files in PEM. */
export interface TlsFiles {
  /** The certificate, followed by the intermediate certificates. */
  readonly cert: string;
  readonly key: string;
}

export interface TlsMaterial {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly period: TlsPeriod;
}

export interface TlsPeriod {
  /** Milliseconds since 1970. */
  readonly startsAt: number;
  readonly endsAt: number;
}

/** A certificate or a key that cannot be used. The message names the file and the reason. */
export class TlsError extends Error {}

/** Interval at which the files are compared. Polling also works for links, network file systems and mounted secrets. */
const pollMs = 10_000;

/** Throws TlsError if a file cannot be read, or if the key does not belong to the certificate. */
export function readTls({ cert, key }: TlsFiles): TlsMaterial {
  const pair = { cert: read(cert), key: read(key) };
  try {
    createSecureContext(pair);
    const { validFromDate, validToDate } = new X509Certificate(pair.cert);
    const period = { startsAt: validFromDate.getTime(), endsAt: validToDate.getTime() };
    return { ...pair, period };
  } catch (error) {
    const code = errorCode(error) ?? messageOf(error);
    const reason =
      code === "ERR_OSSL_X509_KEY_VALUES_MISMATCH" ? "they do not belong together" : code;
    throw new TlsError(`cannot use the certificate ${cert} with the key ${key}: ${reason}`);
  }
}

function read(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new TlsError(`cannot read ${file} (${errorCode(error) ?? messageOf(error)})`);
  }
}

/** A certificate is reported if it expires within this time. Automatic renewal is due long before. */
const soonDays = 10;
export const expirySoonMs = soonDays * 86_400_000;

/** Returns what is wrong with a certificate at `now`, as the end of a sentence. Undefined if it is valid for long enough. */
export function expiryProblem({ startsAt, endsAt }: TlsPeriod, now: number): string | undefined {
  if (now >= endsAt) return `expired at ${timeText(endsAt)}`;
  if (now < startsAt) return `is valid only from ${timeText(startsAt)} on`;
  return endsAt - now < expirySoonMs ? `expires at ${timeText(endsAt)}` : undefined;
}

function timeText(time: number): string {
  return new Date(time).toISOString();
}

function isValid({ startsAt, endsAt }: TlsPeriod, now: number): boolean {
  return startsAt <= now && now < endsAt;
}

interface FollowDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

export function tlsMetrics(metrics: Metrics) {
  return {
    expires: metrics.gauge(
      "sluice_tls_expires_timestamp_seconds",
      "Time at which the certificate in use expires, in seconds since 1970. Missing without `server.tls`.",
      [],
      { isSameInThreads: true },
    ),
    reloadFailed: metrics.gauge(
      "sluice_tls_reload_failed",
      "1 while the files of the certificate cannot be used and the listener keeps the previous certificate, else 0.",
      [],
      { isSameInThreads: true },
    ),
  };
}

/**
 * New connections use new files, unless these are unusable, or not valid while the current certificate is. Logs the
 * reason once per change, and when the certificate in use expires soon or has expired.
 */
export function followTls(
  server: Pick<Server, "setSecureContext">,
  files: TlsFiles,
  used: TlsMaterial,
  { clock, log, metrics }: FollowDeps,
): Disposable {
  const gauges = tlsMetrics(metrics);
  let inUse = { digest: digestOf(used), period: used.period };
  let seen = inUse.digest;
  let reported: string | undefined;
  const look = (): void => {
    const state = stateOf(files);
    let failed = false;
    if (state !== inUse.digest) {
      try {
        const material = readTls(files);
        const { period } = material;
        const now = clock.now();
        if (isValid(inUse.period, now) && !isValid(period, now)) {
          throw new TlsError(`the certificate ${files.cert} ${expiryProblem(period, now)}`);
        }
        server.setSecureContext(material);
        inUse = { digest: digestOf(material), period };
        log.info(
          { cert: files.cert, validTo: timeText(period.endsAt) },
          "the new certificate is in use",
        );
      } catch (error) {
        failed = true;
        const message = "the new certificate cannot be used; the listener keeps the previous one";
        if (state !== seen) log.error({ reason: messageOf(error) }, message);
      }
    }
    seen = state;
    gauges.reloadFailed.with({}).set(failed ? 1 : 0);
    gauges.expires.with({}).set(inUse.period.endsAt / 1000);
    const problem = expiryProblem(inUse.period, clock.now());
    if (problem !== undefined && problem !== reported) {
      log.error({ cert: files.cert }, `the certificate of the listener ${problem}`);
    }
    reported = problem;
  };
  look();
  return clock.every(pollMs, look);
}

function stateOf({ cert, key }: TlsFiles): string {
  try {
    return digestOf({ cert: read(cert), key: read(key) });
  } catch (error) {
    return String(error);
  }
}

function digestOf({ cert, key }: Pick<TlsMaterial, "cert" | "key">): string {
  return createHash("sha256").update(cert).update("\0").update(key).digest("hex");
}
