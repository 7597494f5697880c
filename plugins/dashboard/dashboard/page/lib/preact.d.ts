/** The listener serves the package preact under this name. */
export * from "preact";
