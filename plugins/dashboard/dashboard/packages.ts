/** The large packages have a file of their own, because the bundle cannot `import()` them directly. */
import "fastify";
