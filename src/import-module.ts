/**
 * Imports a module of a user. In the published package, src/commands/run-bundle.ts does it, because Node warns of an
 * experimental feature when the script with the code of the package imports a module.
 */
export const importModule = (url: string): Promise<unknown> => import(url);
