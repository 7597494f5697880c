import { defineSurface } from "sluice-gateway/plugin";

export default defineSurface({
  name: "socket",
  description: "Answers upgrades.",
  websocket: true,
  start: () => ({ answer: () => undefined }),
});
