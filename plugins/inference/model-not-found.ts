const maxShownChars = 128;

export function notFoundMessage(model: string, network: string | undefined): string {
  const path = network === undefined ? "/v1/models" : `/${network}/v1/models`;
  return `the model "${printable(model)}" does not exist; GET ${path} lists the models`;
}

export function notSpokenMessage(api: string, network: string): string {
  return `${api} are not available in the network ${network}, because encrypted networks answer chat only`;
}

/** Removes what a terminal or a log would interpret. */
function printable(text: string): string {
  const shown = text.slice(0, maxShownChars).replaceAll(/[^ -~]|["\\]/g, "?");
  return text.length > maxShownChars ? `${shown}…` : shown;
}
