/**
 * A gateway in its own process, so that its memory can be measured. It forwards to the port in its arguments, and
 * answers each message of its parent with the maximum RSS since the previous one.
 */
import { startForwardingGateway } from "./forwarding-gateway.ts";

const gateway = await startForwardingGateway(Number(process.argv[2]));
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
