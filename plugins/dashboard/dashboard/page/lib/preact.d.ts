/** The listener serves the packages under the names of this folder: see vendored.ts. */
export * from "preact";
