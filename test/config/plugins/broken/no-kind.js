/** A plugin that was not made with defineStep or defineSurface. */
export default { name: "no-kind", description: "Has no kind.", start: () => ({}) };
