/** One of two services that use each other. */
export default {
  kind: "service",
  name: "chicken",
  description: "Uses the egg.",
  uses: ["egg"],
  start: (_, host) => ({ service: host.use("egg") }),
};
