/** A step that accepts any option, including misspelled ones. */
export default {
  kind: "step",
  name: "open-options",
  description: "Takes anything.",
  options: { type: "object", properties: { rate: { type: "number" } } },
  start: () => ({}),
};
