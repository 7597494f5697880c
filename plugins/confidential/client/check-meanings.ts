import type { Check } from "../verify/report.ts";
import type { SnpCheck } from "../verify/snp.ts";
import type { TdxCheck } from "../verify/tdx-checks.ts";
import type { HandshakeCheck } from "./handshake-attempt.ts";

type CheckName = HandshakeCheck | TdxCheck | SnpCheck | "evidence" | "not_simulated" | "price";

/** The meanings of checks, for people who do not know their names. Each statement is true if the check passed. */
const meanings: Readonly<Record<CheckName, string>> = {
  policy: "the pinned key signed the operator's policy, which is neither expired nor rolled back",
  connection: "the gateway accepts encrypted sessions with this API key",
  answer: "the enclave answered in the form of the protocol",
  handshake: "the enclave's own key signed this session, and is valid for this network",
  offer: "the price coefficient that the gateway offers is not above the maximum",
  price: "the price that the gateway offers is not above the maximum",
  evidence_given: "the enclave presented evidence",
  evidence: "the evidence is complete and of a known kind",
  not_simulated: "hardware attests the enclave",
  quote_format: "the hardware's statement about the enclave can be read",
  collateral_format: "Intel's data about the machine can be read",
  pck_chain: "the processor's certificate chain leads to Intel's root, or to an accepted test root",
  qe_report: "the processor vouches for the key that signed the statement",
  quote_signature: "that key signed the statement about the enclave",
  qe_vendor: "Intel's own enclave holds that key",
  tcb_info_signature: "the same root signed the list of secure firmware versions",
  qe_identity_signature: "the same root signed the identity of Intel's enclave",
  root_crl: "the root's revocation list is signed and not expired",
  pck_crl: "the revocation list of processors is signed and not expired",
  revocation: "no certificate has been revoked",
  collateral_platform: "Intel's data is for this kind of machine",
  collateral_dates: "Intel's data has been issued and has not expired",
  collateral_age: "Intel's data is not too old",
  tcb_evaluation: "Intel's data has at least the edition that the policy requires",
  dcap_qvl: "a second, independent library accepts the same statement",
  tcb_status: "the machine's firmware is up to date, or the policy accepts its weaknesses",
  tdx_module: "the processor's TDX module is Intel's and up to date",
  mrseam: "the policy lists the processor's TDX module",
  td_attributes: "nobody can debug the enclave",
  service_td: "no other virtual machine can serve or move the enclave",
  image_hash: "the policy lists the image that runs in the enclave",
  platform: "the policy lists the machine",
  report_data: "the statement names the keys of this enclave, so it is not another enclave's",
  certificate_table: "the processor's certificates can be read",
  vcek_chain: "the processor's certificate chain leads to AMD's root",
  vcek_facts: "the processor's certificate names a chip and its firmware",
  report_signature: "the chip's own key signed the statement about the enclave",
  chip_id: "the certificate is for the chip in the statement",
  tcb: "the certificate is for the firmware in the statement",
  tcb_minimum: "the machine's firmware has at least the versions that the policy requires",
  provisional_firmware: "the firmware is committed, so the machine cannot return to an older one",
  guest_policy: "nobody can debug the enclave or move it to another machine",
  vmpl: "the statement comes from the privilege level that the policy requires",
  session_keys: "only the enclave and this machine have the keys of the session",
};

/** Returns what a check has shown, why it failed, or why it was skipped and what is therefore not known. */
export function checkText({ name, result, why = "" }: Check): string {
  const meaning = Object.hasOwn(meanings, name) ? meanings[name as CheckName] : "";
  if (result === "skipped") return `${why}; not checked: ${meaning}`;
  return result === "pass" ? meaning : why;
}
