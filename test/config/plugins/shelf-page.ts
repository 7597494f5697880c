import { defineSurface } from "sluice-gateway/plugin";

export default defineSurface({
  name: "shelf-page",
  description: "Answers how many entries the shelf has.",
  uses: ["shelf-index"],
  start(_, host) {
    const { entries } = host.use("shelf-index");
    return { answer: () => ({ status: 200, body: String(entries) }) };
  },
});
