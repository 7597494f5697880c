/** The listener serves preact/hooks under this name. */
export * from "preact/hooks";
