import { shownPath, type Fault } from "../config/fault.ts";
import { version } from "../base/version.ts";

/**
 * Commands of GitHub Actions, which show each fault at its line of a pull request. `cwd`: the root of the repository.
 */
export function githubLines(faults: readonly Fault[], cwd: string): string[] {
  return faults.map(({ at, code, message, remedy }) => {
    const properties = [
      ...(at === undefined
        ? []
        : [`file=${property(shownPath(at.file, cwd))}`, `line=${at.line}`, `col=${at.col}`]),
      `title=${property(code)}`,
    ];
    return `::error ${properties.join(",")}::${data(`${message}\n${remedy}`)}`;
  });
}

function data(text: string): string {
  return text.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
}

function property(text: string): string {
  return data(text).replaceAll(":", "%3A").replaceAll(",", "%2C");
}

/** SARIF 2.1.0, with one result per fault. */
export function sarifLog(faults: readonly Fault[], cwd: string): object {
  const codes = [...new Set(faults.map(({ code }) => code))];
  return {
    $schema: "https://json.schemastore.org/sarif-2.1.0.json",
    version: "2.1.0",
    runs: [
      {
        tool: { driver: { name: "sluice", version, rules: codes.map((id) => ({ id })) } },
        columnKind: "unicodeCodePoints",
        results: faults.map(({ at, code, message, remedy }) => ({
          ruleId: code,
          ruleIndex: codes.indexOf(code),
          level: "error",
          message: { text: `${message}\n${remedy}` },
          locations:
            at === undefined
              ? []
              : [
                  {
                    physicalLocation: {
                      artifactLocation: { uri: encodeURI(shownPath(at.file, cwd)) },
                      region: { startLine: at.line, startColumn: at.col },
                    },
                  },
                ],
        })),
      },
    ],
  };
}
