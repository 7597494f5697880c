/** Measures the longest health check of the gateway in its own process, so that clients of a test do not delay it. */
const url = `${process.argv[2]}/healthz`;
let longest = 0;
// The first request also loads what `fetch` needs.
await fetch(url);
let isOver = false;
process.on("message", () => (isOver = true));
process.on("disconnect", () => process.exit());
while (!isOver) {
  const began = performance.now();
  const { ok } = await fetch(url);
  longest = ok ? Math.max(longest, performance.now() - began) : Infinity;
  await new Promise((resolve) => setTimeout(resolve, 5));
}
process.send?.(longest);
