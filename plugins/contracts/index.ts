/**
 * The types of the services and slots of the modules that ship with Sluice, exported as `sluice-gateway/services`. They
 * belong to no module, so that a plugin can use the service of another module and still compile when that module is
 * removed. They are merged into the types of `sluice-gateway/plugin` in every program that imports this file.
 */
export type * from "./accounts.ts";
export type * from "./confidential.ts";
export type * from "./decoder.ts";
export type * from "./errors.ts";
export type * from "./evidence.ts";
export type * from "./evm-node.ts";
export type * from "./idempotency.ts";
export type * from "./inference.ts";
export type * from "./ledger-archive.ts";
export type * from "./ledger-calls.ts";
export type * from "./ledger-follows.ts";
export type * from "./ledger-submissions.ts";
export type * from "./ledger-subscriptions.ts";
export type * from "./ledger.ts";
export type * from "./meter.ts";
export * from "./model-list.ts";
export type * from "./networks.ts";
export * from "./price.ts";
export type * from "./pricing.ts";
export * from "./principal.ts";
export type * from "./tickets.ts";
export type * from "./tool.ts";
export type * from "./tool-catalogue.ts";
export type * from "./tool-document.ts";
export * from "./tool-result.ts";
export * from "./usage.ts";
export * from "./values.ts";
export type * from "./workspaces.ts";
