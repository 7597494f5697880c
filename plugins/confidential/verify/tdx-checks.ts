/** The checks of TDX evidence, in the order in which reports list them. */
import type { Checklist } from "./checklist.ts";

export const tdxChecks = [
  "quote_format",
  "collateral_format",
  "pck_chain",
  "qe_report",
  "quote_signature",
  "qe_vendor",
  "tcb_info_signature",
  "qe_identity_signature",
  "root_crl",
  "pck_crl",
  "revocation",
  "collateral_platform",
  "collateral_dates",
  "collateral_age",
  "tcb_evaluation",
  "dcap_qvl",
  "tcb_status",
  "tdx_module",
  "mrseam",
  "td_attributes",
  "service_td",
  "image_hash",
  "platform",
  "report_data",
] as const;

export type TdxCheck = (typeof tdxChecks)[number];

export type TdxChecklist = Checklist<TdxCheck>;
