/** The tables of the commands. `--help` is printed from the first alone; a command's own files are loaded when it is used. */
import type { Command } from 'commander';

/** What the commands do, in one line each, by their headings in `--help`: the description in their own help, too. */
export const GROUPS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'Set up:': {
    init: 'write .env: ask a few questions, look up what the account has, and check the answers',
    doctor: 'check what a deployment needs, and the deployed stack, and say what to repair',
    deploy: 'deploy the stack with the CDK, by the settings of .env',
    forward: 'forward older capture files to Arthur, or put back what failed',
  },
  'Without a stack:': {
    inspect: 'show what capture files contain, what the stack makes of them, and what judging them costs',
    judge: 'judge the captures of a file on this machine, to write a guideline or a scorer',
  },
  'Runs:': {
    process: 'process captures of the bucket again, or files of this machine, and follow the run',
    runs: 'list the newest runs, or cloud replays, with their figures',
    show: 'show what a run lost, held back or quarantined, why, and which lines; or follow it',
    retry: 'process again what a run left failed, quarantined or held, and follow that',
    stop: 'stop a run, or a cloud replay and wait for its results',
  },
  'Quality:': {
    status: 'say whether the endpoint is healthy, why, and what to do next',
    report: 'write a page about the endpoint: what is bad, since when, and for which variant',
    open: "open MLflow's page, a trace, a run or the dashboard",
    rates: 'print the share of captures that pass each scorer, with its interval and what changed',
    'ground-truth': 'join true answers to predictions, and print how good the predictions were',
    worst: "print the traces with the worst verdicts, with the judge's words and links",
    dataset: 'write the captures of chosen traces to a file that replays, and to an MLflow dataset',
    label: 'pick the traces that people should label, to narrow the interval of a rate most',
    calibrate: "compare the judge's verdicts with people's: agreement, kappa, disagreements",
  },
  'Replay:': {
    replay: 'send captured requests to another endpoint with their original timing, and measure',
    compare: 'compare two replays of the same captures: speed, failures, replies',
  },
};

/** How all commands are loaded, by name. */
export const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  init: async () => (await import('../commands/init.ts')).initCommand(),
  doctor: async () => (await import('../commands/doctor.ts')).doctorCommand(),
  deploy: async () => (await import('../commands/deploy.ts')).deployCommand(),
  forward: async () => (await import('../commands/forward.ts')).forwardCommand(),
  inspect: async () => (await import('../commands/inspect.ts')).inspectCommand(),
  judge: async () => (await import('../commands/judge.ts')).judgeCommand(),
  process: async () => (await import('../commands/process.ts')).processCommand(),
  runs: async () => (await import('../commands/runs.ts')).runsCommand(),
  show: async () => (await import('../commands/show.ts')).showCommand(),
  retry: async () => (await import('../commands/retry.ts')).retryCommand(),
  stop: async () => (await import('../commands/stop.ts')).stopCommand(),
  status: async () => (await import('../commands/status.ts')).statusCommand(),
  report: async () => (await import('../commands/report.ts')).reportCommand(),
  open: async () => (await import('../commands/open.ts')).openCommand(),
  rates: async () => (await import('../commands/rates.ts')).ratesCommand(),
  'ground-truth': async () => (await import('../commands/ground-truth.ts')).groundTruthCommand(),
  worst: async () => (await import('../commands/worst.ts')).worstCommand(),
  dataset: async () => (await import('../commands/dataset.ts')).datasetCommand(),
  label: async () => (await import('../commands/label.ts')).labelCommand(),
  calibrate: async () => (await import('../commands/calibrate.ts')).calibrateCommand(),
  replay: async () => (await import('../commands/replay.ts')).replayCommand(),
  compare: async () => (await import('../commands/compare.ts')).compareCommand(),
};
