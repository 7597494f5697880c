/** A step that would take any option, mistyped ones too. */
export default {
  kind: "step",
  name: "open-options",
  description: "Takes anything.",
  options: { type: "object", properties: { rate: { type: "number" } } },
  start: () => ({}),
};
