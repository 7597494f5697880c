/** Surface `line-counter`: appends a line to a file outside the store, and answers with the number of lines. */
import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { defineSurface } from "../../../src/plugin.ts";

export default defineSurface({
  name: "line-counter",
  description: "Writes a line into a file.",
  start: (_, { folder }) => ({
    async answer(x) {
      const file = join(folder, "effects");
      await new Promise(setImmediate);
      appendFileSync(file, "effect\n");
      const body = readFileSync(file);
      if (x.request.query !== "streamed") return { status: 200, body };
      const sink = await x.stream(200, ["content-type", "text/plain"]);
      sink.write(body.subarray(0, 3));
      await new Promise(setImmediate);
      sink.write(body.subarray(3));
      await sink.end();
      return undefined;
    },
  }),
});
