export const upstreamOption = {
  description: "Name of the entry in `upstreams` that has the nodes.",
  type: "string",
  format: "upstream-name",
} as const;
