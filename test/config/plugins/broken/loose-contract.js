export default {
  kind: "step",
  name: "loose",
  contract: ">=1",
  description: "Names no range.",
  start: () => ({}),
};
