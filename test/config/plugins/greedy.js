/** A surface that asks for a service which its manifest does not list. */
export default {
  kind: "surface",
  name: "greedy",
  description: "Asks for the shelf without saying so.",
  start(_, host) {
    const { size } = host.use("shelf");
    return { answer: () => ({ status: 200, body: String(size) }) };
  },
};
