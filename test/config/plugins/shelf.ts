import { defineService } from "sluice-gateway/plugin";

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    shelf: { readonly size: number };
  }
}

interface Options {
  readonly size: number;
}

export default defineService<Options, { readonly size: number }>({
  name: "shelf",
  description: "Holds a number.",
  options: {
    type: "object",
    properties: { size: { type: "integer", minimum: 1, default: 3 } },
    additionalProperties: false,
  },
  start: ({ size }) => ({ service: { size } }),
});
