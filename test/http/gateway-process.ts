/**
 * A gateway in a process of its own, whose memory is nobody else's: forwards to the port in its arguments, and answers
 * each message of its parent with the largest RSS since the one before.
 */
import { through } from "./through.ts";

const gateway = await through(Number(process.argv[2]));
let largest = 0;
const sample = (): void => {
  largest = Math.max(largest, process.memoryUsage.rss());
};
setInterval(sample, 5).unref();
process.on("message", () => {
  sample();
  process.send?.({ rss: largest });
  largest = 0;
});
process.on("disconnect", () => process.exit());
process.send?.({ port: gateway.port });
