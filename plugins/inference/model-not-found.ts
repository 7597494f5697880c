/** The messages for a model that no network lists, or that is not served in this way. */

/** Maximum number of characters of a model id that the message repeats. */
const maxShownChars = 128;

/** Returns a message with the model and the route that lists the existing models. */
export function notFoundMessage(model: string, network: string | undefined): string {
  const path = network === undefined ? "/v1/models" : `/${network}/v1/models`;
  return `the model "${printable(model)}" does not exist; GET ${path} lists the models`;
}

/** Returns a message for an API that the workers of the model's network do not have. */
export function notSpokenMessage(api: string, network: string): string {
  return `${api} are not available in the network ${network}, because encrypted networks answer chat only`;
}

/** Returns text of a client shortened and without characters that a terminal or a log would interpret. */
function printable(text: string): string {
  const shown = text.slice(0, maxShownChars).replaceAll(/[^ -~]|["\\]/g, "?");
  return text.length > maxShownChars ? `${shown}…` : shown;
}
