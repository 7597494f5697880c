/** The options of the surface `confidential`. Their schema is in index.ts. */

export interface ConfidentialOptions {
  readonly do: "ticket" | "evidence" | "receipt" | "policy";
  readonly document?: string;
}
