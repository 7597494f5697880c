/** The schema of these options is in index.ts. */

export interface ConfidentialOptions {
  readonly do: "ticket" | "evidence" | "receipt" | "policy";
  readonly document?: string;
}
