/** AMD SEV-SNP attestation reports (SEV-SNP Firmware ABI, ATTESTATION_REPORT). */
import { isZero, joinBytes, sha256Hex, type Bytes } from "./binary-text.ts";
import type { SnpProduct, SnpTcb } from "./policy.ts";

export interface SnpReport {
  readonly version: number;
  /** 64 bits, little endian in the report; see `guestPolicyFault`. */
  readonly guestPolicy: bigint;
  readonly vmpl: number;
  /** 1: ECDSA P-384 with SHA-384. */
  readonly signatureAlgorithm: number;
  /** 0: VCEK, 1: VLEK, 7: none. */
  readonly signingKey: number;
  readonly isChipMasked: boolean;
  readonly reportData: Bytes;
  readonly measurement: Bytes;
  readonly hostData: Bytes;
  readonly chipId: Bytes;
  /** 8 bytes each. The layout depends on the product; see `readTcb`. */
  readonly currentTcb: Bytes;
  readonly reportedTcb: Bytes;
  readonly committedTcb: Bytes;
  readonly launchTcb: Bytes;
  /** Build, minor and major version of the running firmware. */
  readonly currentFirmware: Bytes;
  /** Version of the committed firmware, below which the machine cannot be rolled back. */
  readonly committedFirmware: Bytes;
  readonly signedBytes: Bytes;
  /** r and s, big endian, 48 bytes each. */
  readonly signature: Bytes;
}

const reportBytes = 1184;
const signatureAt = 0x2a0;
/** r and s: 72 bytes each, little endian. P-384 uses the first 48. */
const scalarSlot = 72;
const scalarBytes = 48;

/** Undefined unless the bytes are exactly one report of a known version, and the bytes that are not signed are zero. */
export function readSnpReport(bytes: Bytes): SnpReport | undefined {
  if (bytes.length !== reportBytes) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const version = view.getUint32(0, true);
  const r = bytes.subarray(signatureAt, signatureAt + scalarSlot);
  const s = bytes.subarray(signatureAt + scalarSlot, signatureAt + 2 * scalarSlot);
  const isPadded = isZero(r.subarray(scalarBytes)) && isZero(s.subarray(scalarBytes));
  if (version < 2 || version > 5 || !isPadded) return undefined;
  if (!isZero(bytes.subarray(signatureAt + 2 * scalarSlot))) return undefined;
  const keys = view.getUint32(0x48, true);
  return {
    version,
    guestPolicy: view.getBigUint64(0x08, true),
    vmpl: view.getUint32(0x30, true),
    signatureAlgorithm: view.getUint32(0x34, true),
    signingKey: (keys >> 2) & 7,
    isChipMasked: (keys & 2) !== 0,
    reportData: bytes.subarray(0x50, 0x90),
    measurement: bytes.subarray(0x90, 0xc0),
    hostData: bytes.subarray(0xc0, 0xe0),
    chipId: bytes.subarray(0x1a0, 0x1e0),
    currentTcb: bytes.subarray(0x38, 0x40),
    reportedTcb: bytes.subarray(0x180, 0x188),
    committedTcb: bytes.subarray(0x1e0, 0x1e8),
    launchTcb: bytes.subarray(0x1f0, 0x1f8),
    currentFirmware: bytes.subarray(0x1e8, 0x1eb),
    committedFirmware: bytes.subarray(0x1ec, 0x1ef),
    signedBytes: bytes.subarray(0, signatureAt),
    signature: joinBytes(bigEndian(r), bigEndian(s)),
  };
}

function bigEndian(slot: Bytes): Bytes {
  return slot.subarray(0, scalarBytes).toReversed();
}

/** Returns the parts of a TCB version of 8 bytes. For Turin the first byte is the FMC, and the others follow it. */
export function readTcb(product: SnpProduct, bytes: Bytes): SnpTcb {
  const [b0 = 0, b1 = 0, b2 = 0, b3 = 0, , , b6 = 0, microcode = 0] = bytes;
  return product === "Turin"
    ? { fmc: b0, bootloader: b1, tee: b2, snp: b3, microcode }
    : { fmc: 0, bootloader: b0, tee: b1, snp: b6, microcode };
}

/** These bits determine whether the host can read the guest (SEV-SNP Firmware ABI, guest policy). */
const mustBeOne = 1n << 17n;
const migrationAgent = 1n << 18n;
const debug = 1n << 19n;

export function guestPolicyFault(policy: bigint): string | undefined {
  if ((policy & debug) !== 0n) return "the guest can be debugged";
  if ((policy & migrationAgent) !== 0n) return "the guest may be bound to a migration agent";
  return (policy & mustBeOne) === 0n ? "reserved bit 17 of the guest policy is not set" : undefined;
}

/** Returns the image hash: SHA-256("snp-image/1\0" ‖ measurement ‖ host data) (confidential-stream.md, 3.3). */
export function snpImageHash({ measurement, hostData }: SnpReport): Promise<string> {
  const label = new TextEncoder().encode("snp-image/1\0");
  return sha256Hex(joinBytes(label, measurement, hostData));
}
