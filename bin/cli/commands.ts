/** The table of the commands. `--help` is printed from it alone; a command's own files are loaded when it is used. */
import type { Command } from 'commander';

interface CommandEntry {
  /** What it does, in one line: the description in its own help, too. */
  summary: string;
  load(): Promise<Command>;
  /** It works on the options of all commands, which are therefore loaded. */
  needsAll?: true;
}

/** The commands by their headings in `--help`. */
export const GROUPS: Readonly<Record<string, Readonly<Record<string, CommandEntry>>>> = {
  'Set up:': {
    init: {
      summary:
        'write .env: ask, look endpoints, captures, buckets and MLflow apps up in the account, and check the answers',
      load: async () => (await import('../commands/init.ts')).initCommand(),
    },
    doctor: {
      summary: 'check everything that a deployment needs, and the deployed stack, and say what to repair',
      load: async () => (await import('../commands/doctor.ts')).doctorCommand(),
    },
    deploy: {
      summary: 'deploy the stack with the CDK, by the settings of .env',
      load: async () => (await import('../commands/deploy.ts')).deployCommand(),
    },
    inspect: {
      summary:
        'show what capture files contain, what the stack would make of them, and what judging them costs, offline',
      load: async () => (await import('../commands/inspect.ts')).inspectCommand(),
    },
    completion: {
      summary: 'print a script that completes commands, options and choices in a shell',
      load: async () => (await import('../commands/completion.ts')).completionCommand(),
      needsAll: true,
    },
  },
  'Runs:': {
    process: {
      summary: 'process captures of the bucket again, or files of this machine, and follow the run',
      load: async () => (await import('../commands/process.ts')).processCommand(),
    },
    follow: {
      summary: 'follow a run to its end, and print what became of it',
      load: async () => (await import('../commands/follow.ts')).followCommand(),
    },
    runs: {
      summary: 'list the newest runs, or cloud replays, with their figures',
      load: async () => (await import('../commands/runs.ts')).runsCommand(),
    },
    show: {
      summary: 'show what a run lost, held back or quarantined, why, and which lines',
      load: async () => (await import('../commands/show.ts')).showCommand(),
    },
    quarantine: {
      summary: 'count the lines of a run that could not become traces by reason, or write them to a file',
      load: async () => (await import('../commands/quarantine.ts')).quarantineCommand(),
    },
    retry: {
      summary: 'process again what a run left failed, quarantined or held, and follow that',
      load: async () => (await import('../commands/retry.ts')).retryCommand(),
    },
    stop: {
      summary: 'stop a run, or a cloud replay and wait for its results',
      load: async () => (await import('../commands/stop.ts')).stopCommand(),
    },
    forward: {
      summary: 'forward older capture files to Arthur, or put back what failed',
      load: async () => (await import('../commands/forward.ts')).forwardCommand(),
    },
  },
  'Quality:': {
    judge: {
      summary: 'judge the captures of a file here and now, to write a guideline or a scorer',
      load: async () => (await import('../commands/judge.ts')).judgeCommand(),
    },
    open: {
      summary: "open MLflow's page, a trace, a run or the dashboard",
      load: async () => (await import('../commands/open.ts')).openCommand(),
    },
    rates: {
      summary: 'print the share of captures that pass each scorer, with its interval, its sample and what changed',
      load: async () => (await import('../commands/rates.ts')).ratesCommand(),
    },
    'ground-truth': {
      summary: 'join true answers to predictions, and print how good the predictions were',
      load: async () => (await import('../commands/ground-truth.ts')).groundTruthCommand(),
    },
    worst: {
      summary: "print the traces with the worst verdicts, with the judge's words and links",
      load: async () => (await import('../commands/worst.ts')).worstCommand(),
    },
    dataset: {
      summary: 'write the captures of chosen traces to a file that replays, and to an MLflow evaluation dataset',
      load: async () => (await import('../commands/dataset.ts')).datasetCommand(),
    },
    label: {
      summary: 'pick the traces whose labels by people narrow the interval of a rate most',
      load: async () => (await import('../commands/label.ts')).labelCommand(),
    },
    calibrate: {
      summary: "compare the judge's verdicts with people's: agreement, Cohen's kappa, error rates, disagreements",
      load: async () => (await import('../commands/calibrate.ts')).calibrateCommand(),
    },
    'rebuild-counts': {
      summary: 'add up the counts behind rates again, from the receipts of the runs',
      load: async () => (await import('../commands/rebuild-counts.ts')).rebuildCountsCommand(),
    },
  },
  'Replay:': {
    replay: {
      summary: 'send captured requests to another endpoint with their original timing, and measure the replies',
      load: async () => (await import('../commands/replay.ts')).replayCommand(),
    },
    compare: {
      summary: 'compare two replays of the same captures: speed, failures, replies',
      load: async () => (await import('../commands/compare.ts')).compareCommand(),
    },
  },
};

/** All commands by name. */
export const COMMANDS: Readonly<Record<string, CommandEntry>> = Object.assign({}, ...Object.values(GROUPS));
