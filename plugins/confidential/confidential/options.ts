/** What a route of the surface `confidential` may be told; index.ts has the schema. */

export interface ConfidentialOptions {
  readonly do: "ticket" | "evidence" | "receipt" | "policy";
  readonly document?: string;
}
