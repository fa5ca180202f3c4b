/** `inference-monitor completion`: prints a script that completes commands, options and choices in a shell. */
import { Argument, Command } from 'commander';
import { completionScript, SHELLS, type Shell } from '../cli/completion.ts';

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
