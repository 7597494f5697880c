import type { Command } from "./command.ts";
import { runSubcommand, type Subcommand } from "./subcommand.ts";

export interface CompletedCommand {
  readonly name: string;
  readonly summary: string;
  readonly subcommands: readonly string[];
  readonly options: readonly { readonly name: string; readonly takesValue: boolean }[];
}

const shells = { bash, zsh, fish } as const;

export function completionCommand(
  allCommands: () => Promise<Readonly<Record<string, Command>>>,
  commonOptions: Command["options"],
): Command {
  const script = (shell: keyof typeof shells): Subcommand => ({
    options: [],
    arguments: [],
    async run(context) {
      const commands = Object.entries(await allCommands()).map(([name, command]) =>
        completed(name, command, commonOptions),
      );
      context.print(shells[shell](commands));
      return 0;
    },
  });
  return {
    summary: "print a script for completion in bash, zsh or fish",
    help: `usage: sluice completion bash|zsh|fish

Prints a script that completes the commands, subcommands and options of sluice, and the names of files.

  bash   add to ~/.bashrc:                  source <(sluice completion bash)
  zsh    add to ~/.zshrc, after compinit:   source <(sluice completion zsh)
  fish   sluice completion fish > ~/.config/fish/completions/sluice.fish`,
    subcommands: Object.keys(shells),
    options: {},
    async run(context, values, positionals) {
      const subcommands = { bash: script("bash"), zsh: script("zsh"), fish: script("fish") };
      return runSubcommand("completion", subcommands, context, values, positionals);
    },
  };
}

function completed(
  name: string,
  { summary, subcommands = [], options }: Command,
  commonOptions: Command["options"],
): CompletedCommand {
  return {
    name,
    summary,
    subcommands,
    options: Object.entries({ ...options, ...commonOptions }).map(([option, { type }]) => ({
      name: option,
      takesValue: type === "string",
    })),
  };
}

/** After an option with a value, and after everything else that has no match, bash completes names of files. */
function bash(commands: readonly CompletedCommand[]): string {
  const cases = commands.map(({ name, subcommands, options }) => {
    const words = options.map((option) => `--${option.name}`).join(" ");
    return `    ${name}) words="${words}"; subcommands="${subcommands.join(" ")}" ;;`;
  });
  return `# Completion of sluice for bash: source <(sluice completion bash)
_sluice() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}"
  local words="" subcommands=""
  COMPREPLY=()
  case "$previous" in ${valueOptions(commands).join("|")}) return ;; esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="${commands.map(({ name }) => name).join(" ")} --help --version"
  else
    case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
    help) [ "$COMP_CWORD" -eq 2 ] && words="${commands.map(({ name }) => name).join(" ")}" ;;
    esac
    [ "$COMP_CWORD" -eq 2 ] && words="$subcommands $words"
  fi
  COMPREPLY=( $(compgen -W "$words" -- "$current") )
}
complete -o default -F _sluice sluice`;
}

function zsh(commands: readonly CompletedCommand[]): string {
  const described = commands.map(({ name, summary }) => `    ${zshText(`${name}:${summary}`)}`);
  const cases = commands.map(({ name, subcommands, options }) => {
    const specs = options.map(({ name: option, takesValue }) =>
      zshText(takesValue ? `*--${option}=:value:_files` : `--${option}`),
    );
    const words = subcommands.length === 0 ? "_files" : `(${subcommands.join(" ")})`;
    return `  ${name}) _arguments ${specs.join(" ")} ${zshText(`1: :${words}`)} '*:file:_files' ;;`;
  });
  return `#compdef sluice
# Completion of sluice for zsh: source <(sluice completion zsh)
_sluice() {
  if (( CURRENT == 2 )); then
    local -a commands=(
${described.join("\n")}
    )
    _describe command commands
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
${cases.join("\n")}
  esac
}
if [ "$funcstack[1]" = "_sluice" ]; then _sluice "$@"; else compdef _sluice sluice; fi`;
}

function fish(commands: readonly CompletedCommand[]): string {
  const lines = commands.flatMap(({ name, summary, subcommands, options }) => [
    `complete -c sluice -n __fish_use_subcommand -f -a ${name} -d ${zshText(summary)}`,
    ...subcommands.map(
      (word) =>
        `complete -c sluice -n '__fish_seen_subcommand_from ${name}; and not __fish_seen_subcommand_from ${subcommands.join(" ")}' -f -a ${word}`,
    ),
    ...options.map(
      (option) =>
        `complete -c sluice -n '__fish_seen_subcommand_from ${name}' -l ${option.name}${option.takesValue ? " -r" : ""}`,
    ),
  ]);
  return ["# Completion of sluice for fish", ...lines].join("\n");
}

function valueOptions(commands: readonly CompletedCommand[]): string[] {
  const names = commands.flatMap(({ options }) =>
    options.filter(({ takesValue }) => takesValue).map(({ name }) => `--${name}`),
  );
  return [...new Set(names)];
}

/** Returns the text in single quotes, which zsh and fish both read literally. */
function zshText(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
