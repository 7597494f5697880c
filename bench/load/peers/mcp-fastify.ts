/**
 * A bare fastify route for comparison. It parses a call and answers it, but checks and counts nothing. Prints its port.
 */
import fastify from "fastify";

interface CallBody {
  readonly id: number;
  readonly params: { readonly name: string; readonly arguments: { readonly text: string } };
}

const app = fastify({ logger: false });
app.post<{ Body: CallBody }>("/mcp", (request) => {
  const { id, params } = request.body;
  const content = [{ type: "text", text: JSON.stringify({ text: params.arguments.text }) }];
  return { jsonrpc: "2.0", id, result: { content, _meta: { toolName: params.name } } };
});
await app.listen({ port: 0, host: "127.0.0.1" });
const address = app.server.address();
console.log(typeof address === "object" ? address?.port : address);
