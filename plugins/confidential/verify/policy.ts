export interface VerificationPolicy {
  /** Hashes of the accepted images in lower-case hex. An empty list accepts none; `any` accepts every image. */
  readonly imageHashes: readonly string[] | "any";
  /**
   * TDX: the accepted TDX modules (MRSEAM) in lower-case hex. If missing or empty, every module that Intel's TCB info
   * lists as up to date is accepted.
   */
  readonly mrseam?: readonly string[];
  /** TDX: advisories (INTEL-SA-…) that a platform with the status SWHardeningNeeded may have. */
  readonly advisories?: readonly string[];
  /** TDX: minimum `tcbEvaluationDataNumber` of the collateral. Prevents the replay of old collateral. */
  readonly minTcbEvaluation?: number;
  /** TDX: maximum age of the collateral in milliseconds. Default: 30 days. */
  readonly maxCollateralAgeMs?: number;
  /** Accepted machines: PPID (TDX) or CHIP_ID (SEV-SNP) in lower-case hex. Default: any machine. */
  readonly platforms?: readonly string[];
  readonly sevSnp?: SnpPolicy;
  /** Accepts simulated evidence under one of `simulatedRoots`. Such evidence does not count as verified. */
  readonly allowSimulated?: boolean;
  /** Test roots for simulated evidence: DER in base64. None is built in. */
  readonly simulatedRoots?: readonly string[];
  /** Counts simulated evidence as verified. Used only by tests. */
  readonly treatSimulatedAsVerified?: boolean;
}

/**
 * The conditions for SEV-SNP evidence. By default, SEV-SNP evidence is accepted only with `minTcb` and a current
 * revocation list.
 */
export interface SnpPolicy {
  /**
   * Minimum TCB of the VCEK per product; evidence of a product that is not listed fails. `any` opts out of the check.
   * AMD publishes no machine-readable verdict on a TCB, so there is no default: take the numbers from its bulletins.
   */
  readonly minTcb?: SnpMinimums | "any";
  /** `false` accepts evidence without AMD's revocation list. A list that is included must be valid in either case. */
  readonly requireCrl?: boolean;
  /** Highest VM privilege level (VMPL) that a report may come from; 0 is the most privileged. Default: 0. */
  readonly maxVmpl?: number;
}

/** The AMD products that this verifier supports. */
export const snpProducts = ["Milan", "Genoa", "Turin"] as const;

export type SnpProduct = (typeof snpProducts)[number];

/** Minimum security patch levels per product. A part that is not listed has no minimum. */
export type SnpMinimums = Readonly<Partial<Record<SnpProduct, Partial<SnpTcb>>>>;

export const snpTcbParts = ["fmc", "bootloader", "tee", "snp", "microcode"] as const;

/** Security patch levels, each from 0 to 255. `fmc` is 0 for products other than Turin. */
export type SnpTcb = Readonly<Record<(typeof snpTcbParts)[number], number>>;
