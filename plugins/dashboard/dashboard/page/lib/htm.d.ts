/** The listener serves the package htm under this name. */
export { default } from "htm";
