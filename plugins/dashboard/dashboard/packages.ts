/** Loads the large packages of the dashboard. In a file of its own, because the bundle cannot `import()` them directly. */
import "fastify";
