/**
 * A bare fastify with @fastify/http-proxy, for comparison. Prints its port. Its arguments are the upstream, the path
 * that it serves, the path upstream, and the number of connections that it may open.
 */
import fastify from "fastify";
import httpProxy from "@fastify/http-proxy";

const app = fastify({ logger: false });
const [upstream = "", prefix = "", rewritePrefix = "", connections] = process.argv.slice(2);
await app.register(httpProxy, {
  upstream,
  prefix,
  undici: { connections: Number(connections) },
  rewritePrefix,
});
await app.listen({ port: 0, host: "127.0.0.1" });
const address = app.server.address();
console.log(typeof address === "object" ? address?.port : address);
