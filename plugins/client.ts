/**
 * Exported as `sluice-gateway/client`, for Node and browsers: code that verifies the answers of a gateway instead of
 * trusting it. To delete a module, delete its line here too.
 */
export * from "./confidential/client/client.ts";
export * from "./proofs/client/verified-provider.ts";
