/**
 * Step `kill`: ends its own process, as `kill -9` does, in the phase that the header `X-Kill` names: `<id> <phase>`, or
 * `<id> <phase> later` to do so after a turn of the event loop.
 */
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { defineStep, type Exchange } from "../../../src/plugin.ts";

interface Options {
  readonly id: string;
}

export default defineStep<Options>({
  name: "kill",
  description: "Ends the process where a request asks for it.",
  options: {
    type: "object",
    properties: { id: { type: "string" } },
    required: ["id"],
    additionalProperties: false,
  },
  start({ id }, { folder }) {
    const wanted = (x: Exchange, phase: string): boolean =>
      x.request.headers["x-kill"] === `${id} ${phase}`;
    const end = (): void => {
      // This file is the only proof that the point was reached, so it is written first.
      appendFileSync(join(folder, "reached"), `${id}\n`);
      process.kill(process.pid, "SIGKILL");
      // The signal may arrive a moment later. Nothing must happen until then.
      for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    };
    const at = (x: Exchange, phase: string): void => {
      if (wanted(x, phase)) end();
    };
    const soon = async (x: Exchange, phase: string): Promise<void> => {
      at(x, phase);
      await new Promise(setImmediate);
      at(x, `${phase} later`);
    };
    return {
      requestHeaders: (x) => soon(x, "requestHeaders"),
      requestBody: (x) => soon(x, "requestBody"),
      around(x, surface) {
        at(x, "before");
        const answer = surface.answer();
        at(x, "after");
        if (!(answer instanceof Promise)) return answer;
        return answer.then((reply) => (at(x, "answered"), reply));
      },
      responseHeaders: (x) => soon(x, "responseHeaders"),
      responseChunk: (x) => at(x, "responseChunk"),
      responseEnd: (x) => soon(x, "responseEnd"),
      settled: (x) => at(x, "settled"),
    };
  },
});
