/**
 * The smallest streaming proxy in Node, for comparison: node:http receives, undici sends. Prints its port. Its
 * arguments are the upstream and the number of connections that it may open.
 */
import { createServer } from "node:http";
import { Pool } from "undici";

const [url = "", connections] = process.argv.slice(2);
const upstream = new Pool(url, { connections: Number(connections) });
const server = createServer((req, res) => {
  upstream.stream(
    {
      path: "/",
      method: "POST",
      headers: {
        "content-type": "application/json",
        "content-length": req.headers["content-length"] ?? "0",
      },
      body: req,
      opaque: res,
    },
    ({ statusCode, headers }) => {
      res.writeHead(statusCode, headers as Record<string, string>);
      return res;
    },
    (error) => {
      if (error !== null) res.destroy();
    },
  );
});
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  console.log(typeof address === "object" ? address?.port : address);
});
