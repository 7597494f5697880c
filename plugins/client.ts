/**
 * Exported as `sluice-gateway/client`, for Node and browsers: what verifies the answers of a gateway without believing it.
 * To delete a module, delete its line here too.
 */
export * from "./confidential/client/client.ts";
export * from "./proofs/client/verified-provider.ts";
