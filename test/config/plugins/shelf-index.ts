import { defineService } from "sluice-gateway/plugin";

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    "shelf-index": { readonly entries: number };
  }
}

export default defineService({
  name: "shelf-index",
  description: "Counts what the shelf holds.",
  uses: ["shelf"],
  start: (_, host) => ({ service: { entries: host.use("shelf").size } }),
});
