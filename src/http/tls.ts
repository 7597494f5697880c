/** TLS of the public listener: reads the certificate, and reads it again when its files change. */
import { createHash, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Server } from "node:https";
import { createSecureContext } from "node:tls";
import type { Clock, Log } from "../plugin.ts";
import { messageOf } from "../message-of.ts";

/** Absolute paths of files in PEM. */
export interface TlsFiles {
  /** The certificate, followed by the intermediate certificates. */
  readonly cert: string;
  readonly key: string;
}

export interface TlsMaterial {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** A certificate or a key that cannot be used. The message names the file and the reason. */
export class TlsError extends Error {}

/** Interval at which the files are compared. Polling also works for links, network file systems and mounted secrets. */
const pollMs = 10_000;

/** Throws TlsError if a file cannot be read, or if the key does not belong to the certificate. */
export function readTls({ cert, key }: TlsFiles): TlsMaterial {
  const material = { cert: read(cert), key: read(key) };
  try {
    createSecureContext(material);
  } catch (error) {
    const code = codeOf(error);
    const reason =
      code === "ERR_OSSL_X509_KEY_VALUES_MISMATCH" ? "they do not belong together" : code;
    throw new TlsError(`cannot use the certificate ${cert} with the key ${key}: ${reason}`);
  }
  return material;
}

function read(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new TlsError(`cannot read ${file} (${codeOf(error)})`);
  }
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return "code" in error ? String(error.code) : error.message;
}

/**
 * Uses new files for new connections. If they cannot be used, the listener keeps the certificate that it has, and the
 * log says why, once per change.
 */
export function followTls(
  server: Pick<Server, "setSecureContext">,
  files: TlsFiles,
  used: TlsMaterial,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Disposable {
  let seen = digestOf(used);
  return clock.every(pollMs, () => {
    const state = stateOf(files);
    if (state === seen) return;
    seen = state;
    try {
      const material = readTls(files);
      server.setSecureContext(material);
      const { validTo } = new X509Certificate(material.cert);
      log.info({ cert: files.cert, validTo }, "the new certificate is in use");
    } catch (error) {
      const reason = messageOf(error);
      log.error(
        { reason },
        "the new certificate cannot be used; the listener keeps the previous one",
      );
    }
  });
}

/** Returns a text that changes when the files change, or when they become unreadable. */
function stateOf({ cert, key }: TlsFiles): string {
  try {
    return digestOf({ cert: read(cert), key: read(key) });
  } catch (error) {
    return String(error);
  }
}

function digestOf({ cert, key }: TlsMaterial): string {
  return createHash("sha256").update(cert).update("\0").update(key).digest("hex");
}
