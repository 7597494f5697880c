/** The listener serves the package @preact/signals under this name. */
export * from "@preact/signals";
