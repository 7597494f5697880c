/** A module without a default export. */
export const plugin = {};
