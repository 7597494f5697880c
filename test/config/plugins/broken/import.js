/** A plugin that imports a package which is not there. */
import "package-that-is-not-installed";
