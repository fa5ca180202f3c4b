/**
 * `inference-monitor completion`: prints a script that completes commands, options and choices in a shell. The script
 * is made from the commands themselves.
 */
import { Argument, Command, type Option } from 'commander';

const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

/** Both names of the command line. */
const NAMES = ['inference-monitor', 'sagemaker-inference-monitor'] as const;

const optionsOf = (command: Command): Option[] => command.options.filter(({ hidden }) => !hidden);
const flagsOf = ({ short, long }: Option): string[] => [short, long].filter((flag) => flag !== undefined);
const takesValue = ({ required, optional }: Option): boolean => required || optional;
const choicesOf = (command: Command): string[] =>
  command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices);

/** A list of words, as shells split it: a choice may have a space. */
const list = (words: readonly string[]): string => words.map((word) => word.replaceAll(' ', '\\ ')).join(' ');

/** As a word of a POSIX shell or of fish. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/**
 * A script that completes commands, options and choices. Everything else is a file.
 *
 * @param program with all commands loaded
 */
const completionScript = (shell: Shell, program: Command): string => SCRIPTS[shell](program);

function bash(program: Command): string {
  /** With what is to be typed before a space within a word. */
  const typed = (words: string): string => words.replaceAll('\\', '\\\\\\');
  /** What may follow an option that takes a value: one of its choices, or else a file. */
  const values = (command: Command): string[] =>
    [...Map.groupBy(optionsOf(command).filter(takesValue), ({ argChoices = [] }) => list(argChoices))].map(
      ([choices, options]) => {
        const patterns = options.flatMap(flagsOf).map((flag) => `${command.name()}:${flag}`);
        return `    ${patterns.join('|')}) words=${quoted(typed(choices))} ;;`;
      },
    );
  const words = (command: Command): string => {
    const flags = [...optionsOf(command), ...optionsOf(program)].flatMap(flagsOf);
    return `${command.name()}) words=${quoted(choicesOf(command).join(' '))} flags=${quoted([...flags, '--help'].join(' '))} ;;`;
  };
  const names = program.commands.map((command) => command.name());
  return `_inference_monitor() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} command='' words='' flags='' word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ $word != -* ]]; then command=$word; break; fi
  done
  case $command:$previous in
${program.commands.flatMap(values).join('\n')}
    *) case $command in
      '') words=${quoted([...names, 'help'].join(' '))} flags=${quoted([...optionsOf(program).flatMap(flagsOf), '--help'].join(' '))} ;;
      help) words=${quoted(names.join(' '))} ;;
${program.commands.map((command) => `      ${words(command)}`).join('\n')}
    esac ;;
  esac
  if [[ $current == -* ]]; then words=$flags; fi
  local IFS=$'\\n'
  COMPREPLY=($(IFS=' '; compgen -W "$words" -- "$current"))
}
complete -o default -F _inference_monitor ${NAMES.join(' ')}
`;
}

function zsh(program: Command): string {
  const plain = (text: string): string => text.replace(/[[\]:\\]/g, '\\$&');
  const action = ({ argChoices }: Option | Argument): string => (argChoices ? `(${list(argChoices)})` : '_files');
  const spec = (option: Option): string[] =>
    flagsOf(option).map((flag) => {
      const repeats = option.variadic || Array.isArray(option.defaultValue) ? '*' : '';
      const value = takesValue(option) ? `:${option.attributeName()}:${action(option)}` : '';
      return quoted(`${repeats}${flag}[${plain(option.description)}]${value}`);
    });
  const argumentSpecs = (command: Command): string[] =>
    command.registeredArguments.map((one) => quoted(`${one.variadic ? '*' : ''}:${one.name()}:${action(one)}`));
  const shared = [...optionsOf(program).flatMap(spec), quoted('--help[display help]')];
  const cases = program.commands.map((command) => {
    const specs = [...argumentSpecs(command), ...optionsOf(command).flatMap(spec), ...shared];
    return `    ${command.name()}) _arguments ${specs.join(' ')} ;;`;
  });
  const commands = program.commands.map((command) => quoted(`${plain(command.name())}:${command.description()}`));
  return `#compdef ${NAMES.join(' ')}
_inference_monitor() {
  local state line
  _arguments -C ${shared.join(' ')} '1: :->command' '*:: :->words'
  case $state in
  command)
    local -a commands=(${commands.join(' ')})
    _describe command commands ;;
  words) case $words[1] in
${cases.join('\n')}
    esac ;;
  esac
}
if [[ $funcstack[1] == _* ]]; then _inference_monitor "$@"; else compdef _inference_monitor ${NAMES.join(' ')}; fi
`;
}

function fish(program: Command): string {
  const [name, ...others] = NAMES;
  const line = (condition: string, ...words: string[]): string =>
    `complete -c ${name} -n ${quoted(condition)} ${words.join(' ')}`;
  const ofOption = (condition: string) => (option: Option) => {
    const { short, long, description, argChoices } = option;
    const value = argChoices ? ['-x', '-a', quoted(list(argChoices))] : takesValue(option) ? ['-r'] : [];
    const flags = [...(long ? ['-l', long.slice(2)] : []), ...(short ? ['-s', short.slice(1)] : [])];
    return line(condition, ...flags, ...value, '-d', quoted(description));
  };
  return [
    ...program.commands.flatMap((command) => {
      const inside = `__fish_seen_subcommand_from ${command.name()}`;
      const choices = choicesOf(command);
      return [
        line('__fish_use_subcommand', '-f', '-a', command.name(), '-d', quoted(command.description())),
        ...(choices.length > 0 ? [line(inside, '-f', '-a', quoted(choices.join(' ')))] : []),
        ...optionsOf(command).map(ofOption(inside)),
      ];
    }),
    ...optionsOf(program).map(ofOption('true')),
    ...others.map((other) => `complete -c ${other} -w ${name}`),
    '',
  ].join('\n');
}

const SCRIPTS: Record<Shell, (program: Command) => string> = { bash, zsh, fish };

const HELP = `
Examples:
  inference-monitor completion bash > ~/.local/share/bash-completion/completions/inference-monitor
  inference-monitor completion zsh > ~/.zfunc/_inference-monitor     # a folder of fpath, before compinit
  inference-monitor completion fish > ~/.config/fish/completions/inference-monitor.fish`;

export function completionCommand(): Command {
  return new Command('completion')
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
    .addHelpText('after', HELP)
    .action((shell: Shell, _flags, command: Command) => {
      process.stdout.write(completionScript(shell, command.parent ?? command));
    });
}
