/** The tables of the commands. `--help` is printed from the first alone; a command's own files are loaded when it is used. */
import type { Command } from 'commander';

/** What the commands do, in one line each, by their headings in `--help`: the description in their own help, too. */
export const GROUPS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'Set up:': {
    init: 'write .env: ask a few questions, look up what the account has, and check the answers',
    doctor: 'check what a deployment needs, and the deployed stack, and say what to repair',
    capture: "show an endpoint's Data Capture, or switch it on or off; print the client's line for streams",
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

/** How all commands are loaded, by name: each is what the file of its name exports. */
export const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = Object.fromEntries(
  Object.values(GROUPS)
    .flatMap(Object.keys)
    .map((name) => [name, async () => (await import(`./commands/${name}.ts`)).default()]),
);
