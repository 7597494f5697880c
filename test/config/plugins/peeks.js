/** A step with a hook for bodies that its manifest does not permit. */
export default {
  kind: "step",
  name: "peeks",
  description: "Reads bodies without saying so.",
  permissions: { env: ["PEEKS_KEY"] },
  start: () => ({ requestBody() {} }),
};
