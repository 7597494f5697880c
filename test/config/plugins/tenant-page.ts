import { defineSurface } from "sluice-gateway/plugin";
import "./slots.ts";

export default defineSurface({
  name: "tenant-page",
  description: "Answers with the tenant.",
  needs: { tenant: "answer" },
  start: () => ({ answer: (x) => ({ status: 200, body: x.get("tenant") }) }),
});
