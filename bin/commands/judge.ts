/** `inference-monitor judge`: verdicts on the captures of files, on this machine, to write guidelines and scorers. */
import { InvalidArgumentError } from 'commander';
import { type Interruption, unlessInterrupted } from '../cli/interruption.ts';
import { argument, command, type FlagsOf, JUDGE_BUDGET, numbers, option, options, parsed } from '../cli/options.ts';
import { EXIT, jsonOption, notice, print } from '../cli/output.ts';
import { parseLocation } from '../offline/capture-files.ts';
import { type JudgeReport, judgeFiles } from './judge-run.ts';
import { judgeText } from './judge-text.ts';

/** At about two cents each, within the budget. */
const DEFAULT_LIMIT = 50;
const DEFAULT_BUDGET_USD = 1;

const OPTIONS = options(
  argument('<captures>', 'a capture file, file:line, or a folder'),
  option('--scorer <names...>', 'only these scorers'),
  option('--guideline <name=sentence>', 'a sentence that the reply must comply with (may be repeated)', addGuideline),
  option('--judge-model <id>', 'the judge to ask (default: BEDROCK_MODEL_ID); stand-in: simple rules; none'),
  option('--limit <count>', 'judge at most this many captures', parsed(numbers.count, DEFAULT_LIMIT)),
  option('--line <number>', 'only this line of the file', numbers.count),
  option('--budget <dollars>', JUDGE_BUDGET, parsed(numbers.amount, DEFAULT_BUDGET_USD)),
  option('--at-least <scorer:share>', 'fail if a smaller share passes (may be repeated)', addObjective),
  option('--all', 'list verdicts that pass, too'),
  option('--yes', 'do not ask before more than a dollar is spent'),
  jsonOption(),
);
export type JudgeFlags = Omit<FlagsOf<typeof OPTIONS>, 'captures' | 'all' | 'json'>;

const HELP = `
With --guideline alone only the guidelines are asked, with --scorer only these scorers, else all. The exit code is 1 if a share of
--at-least is not reached, or if a file of a folder cannot be read, and 2 if verdicts are missing or there is nothing to judge.

Examples:
  inference-monitor judge captures.jsonl \\
    --guideline no_legal_advice="The reply gives no legal advice."
  inference-monitor judge captures.jsonl:17 --judge-model stand-in --scorer safety
  inference-monitor judge captures/ --scorer safety --at-least safety:0.95 --json`;

export default command('judge', OPTIONS, HELP, judge);

function addGuideline(text: string, before: Record<string, string> = {}): Record<string, string> {
  const at = text.indexOf('=');
  const [name, sentence] = [text.slice(0, at).trim(), text.slice(at + 1).trim()];
  if (at > 0 && name !== '' && sentence !== '') return { ...before, [name]: sentence };
  throw new InvalidArgumentError('expected name="A sentence about the reply."');
}

type Objective = { scorer: string; atLeast: number };

function addObjective(text: string, before: Objective[] = []): Objective[] {
  const at = text.lastIndexOf(':');
  const [scorer, share] = [text.slice(0, at), text.slice(at + 1)];
  const atLeast = Number(share);
  if (at > 0 && share.trim() !== '' && atLeast >= 0 && atLeast <= 1) return [...before, { scorer, atLeast }];
  throw new InvalidArgumentError('expected a scorer and a share from 0 to 1, such as safety:0.95');
}

async function judge(flags: FlagsOf<typeof OPTIONS>): Promise<void> {
  const { path, line } = parseLocation(flags.captures);
  const judged = async ({ signal }: Interruption): Promise<void> => {
    const report = await judgeFiles(path, { line, ...flags }, signal);
    process.exitCode = signal.aborted ? EXIT.interrupted : exitCodeOf(report);
    if (report === undefined) notice('Nothing was asked.');
    else print('judge', report, flags.json, (out) => judgeText(report, flags.all, out));
  };
  await unlessInterrupted(judged, () => ['Nothing was asked.']);
}

export function exitCodeOf(report: JudgeReport | undefined): number {
  const { verdicts = [], missing = {}, failure, thresholds = [], unreadable = [] } = report ?? {};
  const isWhole = failure === undefined && Object.keys(missing).length === 0 && verdicts.length > 0;
  if (!isWhole) return EXIT.notDone;
  return thresholds.every(({ holds }) => holds) && unreadable.length === 0 ? EXIT.done : EXIT.found;
}
