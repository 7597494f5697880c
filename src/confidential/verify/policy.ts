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

export interface SnpPolicy {
  /** The least that each part of the VCEK's TCB must be. */
  readonly minTcb?: Partial<SnpTcb>;
  /** The highest privilege level (0 is the most privileged) a report may come from; 0 unless given. */
  readonly maxVmpl?: number;
}

/** Security patch levels, each 0 to 255. `fmc`: Turin only, 0 elsewhere. */
export interface SnpTcb {
  readonly fmc: number;
  readonly bootloader: number;
  readonly tee: number;
  readonly snp: number;
  readonly microcode: number;
}
