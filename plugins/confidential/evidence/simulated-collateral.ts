import { toHex } from "../verify/binary-text.ts";
import type { TdxCollateral } from "../verify/tdx-collateral.ts";
import { revocationList, simulatedMachine, writePem, type SimulatedPki } from "./simulated-pki.ts";
import { simulatedEnclave } from "./simulated-quote.ts";

/** Tests vary the state of the platform so that clients refuse the evidence. */
export interface SimulatedCollateralState {
  /** Milliseconds since 1970. */
  readonly issuedAt: number;
  readonly lifetimeMs: number;
  readonly tcbStatus: string;
  readonly advisories: readonly string[];
  readonly moduleStatus: string;
  readonly tcbEvaluation: number;
  readonly revoked: readonly ("authority" | "pck" | "signer")[];
}

export function writeCollateral(pki: SimulatedPki, state: SimulatedCollateralState): TdxCollateral {
  const { issuedAt, lifetimeMs, revoked } = state;
  const tcbInfo = JSON.stringify(writeTcbInfo(state));
  const identity = JSON.stringify(writeQeIdentity(state));
  const sign = (text: string): string => toHex(pki.signer.key.sign(new TextEncoder().encode(text)));
  const byRoot = revoked.filter((role) => role !== "pck").map((role) => pki[role]);
  const byAuthority = revoked.filter((role) => role === "pck").map((role) => pki[role]);
  const until = issuedAt + lifetimeMs;
  const signers = writePem(pki.signer, pki.root);
  return {
    root_ca_crl: toHex(revocationList(pki.root, byRoot, issuedAt, until)),
    pck_crl: toHex(revocationList(pki.authority, byAuthority, issuedAt, until)),
    tcb_info_issuer_chain: signers,
    tcb_info: tcbInfo,
    tcb_info_signature: sign(tcbInfo),
    qe_identity_issuer_chain: signers,
    qe_identity: identity,
    qe_identity_signature: sign(identity),
  };
}

/** TCB info (Intel PCS API v4), with one level that every machine of this kind reaches. */
function writeTcbInfo(state: SimulatedCollateralState): unknown {
  const { fmspc, pceId } = simulatedMachine;
  const components = Array.from({ length: 16 }, () => ({ svn: 0 }));
  const module = {
    mrsigner: "00".repeat(48),
    attributes: "00".repeat(8),
    attributesMask: "FF".repeat(8),
  };
  return {
    id: "TDX",
    version: 3,
    ...dates(state),
    fmspc,
    pceId,
    tcbType: 0,
    tdxModule: module,
    tdxModuleIdentities: [
      {
        id: "TDX_01",
        ...module,
        tcbLevels: [level({ isvsvn: 1 }, state.moduleStatus, state.advisories)],
      },
    ],
    tcbLevels: [
      level(
        { sgxtcbcomponents: components, pcesvn: 0, tdxtcbcomponents: components },
        state.tcbStatus,
        state.advisories,
      ),
    ],
  };
}

/** Identity of the quoting enclave (Intel PCS API v4, "enclave identity"). */
function writeQeIdentity(state: SimulatedCollateralState): unknown {
  const { mrsigner, isvprodid, isvsvn, attributes } = simulatedEnclave;
  return {
    id: "TD_QE",
    version: 2,
    ...dates(state),
    miscselect: "00".repeat(4),
    miscselectMask: "FF".repeat(4),
    attributes: toHex(attributes),
    attributesMask: "FF".repeat(16),
    mrsigner: toHex(mrsigner),
    isvprodid,
    tcbLevels: [level({ isvsvn }, "UpToDate", [])],
  };
}

function dates({ issuedAt, lifetimeMs, tcbEvaluation }: SimulatedCollateralState): object {
  return {
    issueDate: isoSeconds(issuedAt),
    nextUpdate: isoSeconds(issuedAt + lifetimeMs),
    tcbEvaluationDataNumber: tcbEvaluation,
  };
}

function level(tcb: object, tcbStatus: string, advisoryIDs: readonly string[]): object {
  return { tcb, tcbDate: "2026-01-01T00:00:00Z", tcbStatus, advisoryIDs };
}

function isoSeconds(time: number): string {
  return new Date(time).toISOString().replace(/\.\d+/, "");
}
