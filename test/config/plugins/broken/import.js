/** A plugin that imports a package which is not there. */
await import(["package", "that", "is", "not", "installed"].join("-"));
