/** The tables of the commands. `--help` is printed from the first alone; a command's own files are loaded when it is used. */
import type { Command } from 'commander';

/** What the commands do, in one line each, by their headings in `--help`: the description in their own help, too. */
export const GROUPS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'Set up:': {
    init: 'write .env: ask, look endpoints, captures, buckets and MLflow apps up in the account, and check the answers',
    doctor: 'check everything that a deployment needs, and the deployed stack, and say what to repair',
    deploy: 'deploy the stack with the CDK, by the settings of .env',
    inspect: 'show what capture files contain, what the stack would make of them, and what judging them costs, offline',
    completion: 'print a script that completes commands, options and choices in a shell',
  },
  'Runs:': {
    process: 'process captures of the bucket again, or files of this machine, and follow the run',
    follow: 'follow a run to its end, and print what became of it',
    runs: 'list the newest runs, or cloud replays, with their figures',
    show: 'show what a run lost, held back or quarantined, why, and which lines',
    quarantine: 'count the lines of a run that could not become traces by reason, or write them to a file',
    retry: 'process again what a run left failed, quarantined or held, and follow that',
    stop: 'stop a run, or a cloud replay and wait for its results',
    forward: 'forward older capture files to Arthur, or put back what failed',
  },
  'Quality:': {
    judge: 'judge the captures of a file here and now, to write a guideline or a scorer',
    open: "open MLflow's page, a trace, a run or the dashboard",
    rates: 'print the share of captures that pass each scorer, with its interval, its sample and what changed',
    'ground-truth': 'join true answers to predictions, and print how good the predictions were',
    worst: "print the traces with the worst verdicts, with the judge's words and links",
    dataset: 'write the captures of chosen traces to a file that replays, and to an MLflow evaluation dataset',
    label: 'pick the traces whose labels by people narrow the interval of a rate most',
    calibrate: "compare the judge's verdicts with people's: agreement, Cohen's kappa, error rates, disagreements",
    'rebuild-counts': 'add up the counts behind rates again, from the receipts of the runs',
  },
  'Replay:': {
    replay: 'send captured requests to another endpoint with their original timing, and measure the replies',
    compare: 'compare two replays of the same captures: speed, failures, replies',
  },
};

/** How all commands are loaded, by name. */
export const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  init: async () => (await import('../commands/init.ts')).initCommand(),
  doctor: async () => (await import('../commands/doctor.ts')).doctorCommand(),
  deploy: async () => (await import('../commands/deploy.ts')).deployCommand(),
  inspect: async () => (await import('../commands/inspect.ts')).inspectCommand(),
  completion: async () => (await import('../commands/completion.ts')).completionCommand(),
  process: async () => (await import('../commands/process.ts')).processCommand(),
  follow: async () => (await import('../commands/follow.ts')).followCommand(),
  runs: async () => (await import('../commands/runs.ts')).runsCommand(),
  show: async () => (await import('../commands/show.ts')).showCommand(),
  quarantine: async () => (await import('../commands/quarantine.ts')).quarantineCommand(),
  retry: async () => (await import('../commands/retry.ts')).retryCommand(),
  stop: async () => (await import('../commands/stop.ts')).stopCommand(),
  forward: async () => (await import('../commands/forward.ts')).forwardCommand(),
  judge: async () => (await import('../commands/judge.ts')).judgeCommand(),
  open: async () => (await import('../commands/open.ts')).openCommand(),
  rates: async () => (await import('../commands/rates.ts')).ratesCommand(),
  'ground-truth': async () => (await import('../commands/ground-truth.ts')).groundTruthCommand(),
  worst: async () => (await import('../commands/worst.ts')).worstCommand(),
  dataset: async () => (await import('../commands/dataset.ts')).datasetCommand(),
  label: async () => (await import('../commands/label.ts')).labelCommand(),
  calibrate: async () => (await import('../commands/calibrate.ts')).calibrateCommand(),
  'rebuild-counts': async () => (await import('../commands/rebuild-counts.ts')).rebuildCountsCommand(),
  replay: async () => (await import('../commands/replay.ts')).replayCommand(),
  compare: async () => (await import('../commands/compare.ts')).compareCommand(),
};
