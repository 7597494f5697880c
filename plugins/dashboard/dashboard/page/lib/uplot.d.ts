/** The listener serves the package uplot under this name. */
export { default } from "uplot";
