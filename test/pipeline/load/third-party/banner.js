/** A third party's surface that needs the slot of its own package's step. */
import { defineSurface } from "sluice-gateway/plugin";

export default defineSurface({
  name: "banner",
  description: "Answers with the stamp.",
  needs: { stamp: "answer" },
  start: () => ({
    answer: (x) => ({
      status: 200,
      headers: ["content-type", "text/plain"],
      body: `stamped ${x.get("stamp")}`,
    }),
  }),
});
