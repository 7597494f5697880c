/** A step that uses the secret of the deployment, which its manifest does not list. */
export default {
  kind: "step",
  name: "sealing",
  description: "Makes a key without saying so.",
  permissions: { deployment: ["store"] },
  start(_, host) {
    host.seal.key("sealing");
    return {};
  },
};
