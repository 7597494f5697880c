/** A step that reads an environment variable which its manifest does not list. */
export default {
  kind: "step",
  name: "secretive",
  description: "Reads a variable without saying so.",
  permissions: { env: ["ACME_URL"] },
  start(_, host) {
    host.variable("ACME_URL");
    host.variable("ACME_KEY");
    return {};
  },
};
