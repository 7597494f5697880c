/** What a verifier accepts: the measured code, the state of the platform, and whether a simulation will do. */

export interface VerificationPolicy {
  /** Lower-case hex; an empty list accepts none. `any` says plainly that whatever runs there is trusted. */
  readonly imageHashes: readonly string[] | "any";
  /** TDX: lower-case hex of the TDX modules accepted. Absent or empty: those that Intel's TCB info calls up to date. */
  readonly mrseam?: readonly string[];
  /** Advisories (INTEL-SA-…) that a platform with the status SWHardeningNeeded may have. */
  readonly advisories?: readonly string[];
  /** TDX: the lowest `tcbEvaluationDataNumber` of the collateral; stops the replay of old collateral. */
  readonly minTcbEvaluation?: number;
  /** TDX: milliseconds since the collateral was issued; 30 days unless given. */
  readonly maxCollateralAgeMs?: number;
  /** Lower-case hex of the PPID (TDX) or CHIP_ID (SEV-SNP) of the machines accepted. Absent: any. */
  readonly platforms?: readonly string[];
  readonly sevSnp?: SnpPolicy;
  /** Lets simulated evidence be checked at all, with one of `simulatedRoots`. */
  readonly allowSimulated?: boolean;
  /** Test roots, DER in base64. None is built in. */
  readonly simulatedRoots?: readonly string[];
  /** For tests: simulated evidence counts as verified. */
  readonly treatSimulatedAsVerified?: boolean;
}

/** The conditions for SEV-SNP evidence. Without `minTcb` and a current revocation list no such evidence passes. */
export interface SnpPolicy {
  /**
   * Minimum TCB of the VCEK per product; evidence of a product that is not listed fails. `any` opts out of the check.
   * AMD publishes no machine-readable verdict on a TCB, so there is no default: take the numbers from its bulletins.
   */
  readonly minTcb?: SnpMinimums | "any";
  /** `false` accepts evidence without AMD's revocation list. A list that is included must be valid in either case. */
  readonly requireCrl?: boolean;
  /** The highest privilege level (0 is the most privileged) a report may come from; 0 unless given. */
  readonly maxVmpl?: number;
}

/** The products whose firmware this verifier knows. */
export const snpProducts = ["Milan", "Genoa", "Turin"] as const;

export type SnpProduct = (typeof snpProducts)[number];

/** Parts that a product does not name have no minimum. */
export type SnpMinimums = Readonly<Partial<Record<SnpProduct, Partial<SnpTcb>>>>;

/** The parts of a TCB. `fmc`: Turin only. */
export const snpTcbParts = ["fmc", "bootloader", "tee", "snp", "microcode"] as const;

/** Security patch levels, each 0 to 255. `fmc`: 0 for other products than Turin. */
export type SnpTcb = Readonly<Record<(typeof snpTcbParts)[number], number>>;
