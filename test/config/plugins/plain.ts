import { defineStep } from "sluice-gateway/plugin";
import "./slots.ts";

export default defineStep({
  name: "plain",
  description: "Does nothing.",

  start: () => ({}),
});
