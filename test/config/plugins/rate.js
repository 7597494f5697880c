/** A service with the name of a section that belongs to the gateway. */
export default {
  kind: "service",
  name: "rate",
  description: "Has a name that is taken.",
  start: () => ({ service: {} }),
};
