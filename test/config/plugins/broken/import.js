/** A plugin that imports a missing package. */
await import(["package", "that", "is", "not", "installed"].join("-"));
