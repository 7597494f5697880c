/** The lower limit: a node:http server that reads the body and answers without an upstream. Prints its port. */
import { createServer } from "node:http";

const body =
  '{"jsonrpc":"2.0","id":1,"result":{"peers":12,"isSyncing":false,"shouldHavePeers":true}}';
const server = createServer((req, res) => {
  req.on("data", () => {});
  req.on("end", () => {
    res.writeHead(200, ["content-type", "application/json", "content-length", String(body.length)]);
    res.end(body);
  });
});
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  console.log(typeof address === "object" ? address?.port : address);
});
