/** The comparison: a bare fastify with @fastify/http-proxy, nothing else on. Prints its port. */
import fastify from "fastify";
import httpProxy from "@fastify/http-proxy";

const app = fastify({ logger: false });
await app.register(httpProxy, {
  upstream: process.argv[2] ?? "",
  prefix: "/v1/ledger/rpc",
  rewritePrefix: "/",
});
await app.listen({ port: 0, host: "127.0.0.1" });
const address = app.server.address();
console.log(typeof address === "object" ? address?.port : address);
