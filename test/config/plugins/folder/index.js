/** A plugin that is named by its folder. */
export default { kind: "step", name: "folder", description: "Is a folder.", start: () => ({}) };
