export default {
  kind: "step",
  name: "newer",
  contract: "^2",
  description: "Is for a newer contract.",
  start: () => ({}),
};
