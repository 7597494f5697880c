import { defineStep } from "sluice-gateway/plugin";

export default defineStep({
  name: "no-start",
  description: "Does not start.",
  start() {
    throw new Error("no connection to the licence server");
  },
});
