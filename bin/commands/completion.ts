/** `inference-monitor completion`: prints a script for a shell, which asks this command for what may follow. */
import { Argument, type Command } from 'commander';
import { command } from '../cli/options.ts';

const NAMES = 'inference-monitor sagemaker-inference-monitor';

/** By shell. Where nothing is offered, a file may follow. */
const SCRIPTS = {
  bash: `_inference_monitor() {
  local IFS=$'\\n'
  COMPREPLY=($("$1" completion bash -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _inference_monitor ${NAMES}
`,
  zsh: `#compdef ${NAMES}
_inference_monitor() {
  local -a found=("\${(@f)$($words[1] completion zsh -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n $found[1] ]]; then _describe '' found; else _files; fi
}
if [[ $funcstack[1] == _* ]]; then _inference_monitor "$@"; else compdef _inference_monitor ${NAMES}; fi
`,
  fish: `for name in ${NAMES}
  complete -c $name -a "($name completion fish -- (commandline -opc)[2..] (commandline -ct))"
end
`,
};
type Shell = keyof typeof SCRIPTS;

const HELP = `
The script asks this command, so it need not be printed again after an update.

Examples:
  inference-monitor completion bash > \\
    ~/.local/share/bash-completion/completions/inference-monitor
  inference-monitor completion zsh > ~/.zfunc/_inference-monitor  # before compinit
  inference-monitor completion fish > \\
    ~/.config/fish/completions/inference-monitor.fish`;

export function completionCommand(): Command {
  return command('completion', [], HELP)
    .addArgument(new Argument('<shell>', 'the shell').choices(Object.keys(SCRIPTS)))
    .addArgument(new Argument('[words...]', 'for the script: what is typed, to print what may follow'))
    .action((shell: Shell, words: string[], _, self: Command) => {
      if (words.length === 0) process.stdout.write(SCRIPTS[shell]);
      else for (const one of candidates(words, self.parent ?? self)) console.log(LINES[shell](...one));
    });
}

/** A word, and what it means. */
type Candidate = [word: string, text: string];

/** A candidate as a shell reads it: a choice may have a space. */
const LINES: Record<Shell, (...candidate: Candidate) => string> = {
  bash: (word) => word.replaceAll(' ', '\\ '),
  zsh: (word, text) => `${word.replaceAll(':', '\\:')}:${text}`,
  fish: (word, text) => `${word}\t${text}`,
};

/** What may stand in the place of the last word. @param program of which the named command is loaded */
function candidates(words: readonly string[], program: Command): Candidate[] {
  const [current = '', previous] = words.toReversed();
  const asked = words.slice(0, -1).find((word) => !word.startsWith('-'));
  const own = program.commands.find((one) => one.name() === asked);
  const all = [...(own?.options ?? []), ...program.options];
  const before = all.find((one) => (one.required || one.optional) && [one.long, one.short].includes(previous));
  const found = (): Candidate[] => {
    if (before) return (before.argChoices ?? []).map((choice) => [choice, before.description]);
    if (current.startsWith('-')) {
      return [...all.map(({ long, description }): Candidate => [long ?? '', description]), ['--help', 'display help']];
    }
    if (own)
      return own.registeredArguments.flatMap(({ argChoices: all = [] }) => all.map((one): Candidate => [one, '']));
    const commands = program.commands.map((one): Candidate => [one.name(), one.description()]);
    return asked === undefined ? [...commands, ['help', 'display help']] : asked === 'help' ? commands : [];
  };
  return found().filter(([word]) => word.startsWith(current));
}
