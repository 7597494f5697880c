/** An object that is only half a plugin. */
export default {
  kind: "step",
  name: "Half Plugin",
  priority: 10,
  needs: { tenant: "answer" },
  provides: ["tenant"],
  check: true,
  options: { type: "string" },
};
