/** One of two services that use each other. */
export default {
  kind: "service",
  name: "egg",
  description: "Uses the chicken.",
  uses: ["chicken"],
  start: (_, host) => ({ service: host.use("chicken") }),
};
