/** `inference-monitor judge`: verdicts on the captures of files, here and now, to write guidelines and scorers. */
import { Command, InvalidArgumentError, Option } from 'commander';
import { EXIT, jsonOption, notice, terminal, writeJson } from '../cli/output.ts';
import { stopOnSignals } from '../cli/stop-signals.ts';
import { parseLocation } from '../offline/capture-files.ts';
import type { JudgeReport } from '../offline/reports.ts';
import { JUDGES, type JudgeFlags, judgeFiles } from './judge-run.ts';
import { judgeText } from './judge-text.ts';
import { amount, wholeNumberOption } from './numbers.ts';

/** At about two cents each, within the budget. */
const DEFAULT_LIMIT = 50;
const DEFAULT_BUDGET_USD = 1;

const HELP = `
Examples:
  inference-monitor judge captures.jsonl --guideline no_legal_advice="The reply gives no legal advice."
  inference-monitor judge captures.jsonl:17
  inference-monitor judge examples/captures --judge stand-in --scorer safety completeness
  inference-monitor judge examples/captures --judge none
  inference-monitor judge captures/ --scorer safety --threshold safety:0.95 --json > verdicts.json

With --guideline alone only the guidelines are asked, with --scorer only these scorers, else all. Settings are read from the
environment and .env (BEDROCK_MODEL_ID, JUDGE_GUIDELINES, JUDGE_PRICES, …). The stand-in's verdicts follow simple rules and cost
nothing; the real judge needs your own credentials.
The exit code is 1 if a share of --threshold is not reached, or if a file of a folder cannot be read, and 2 if verdicts are missing, because the judge failed or the budget
was too small, or if there is nothing to judge.`;

export function judgeCommand(): Command {
  return new Command('judge')
    .argument('<captures>', 'a capture file, file:line, or a folder')
    .option('--scorer <names...>', 'only these scorers')
    .option('--guideline <name=sentence>', 'a sentence that the reply must comply with (may be repeated)', addGuideline)
    .addOption(
      new Option('--judge <kind>', 'the judge of your settings, the stand-in, or code scorers alone')
        .choices(JUDGES)
        .default('real'),
    )
    .option('--model <id>', 'the judge to ask (default: BEDROCK_MODEL_ID)')
    .option('--limit <count>', 'at most this many captures that a scorer applies to', wholeNumberOption, DEFAULT_LIMIT)
    .option('--line <number>', 'only this line of the file', wholeNumberOption)
    .option('--budget <dollars>', 'the most to spend on the judge; 0: no limit', amount, DEFAULT_BUDGET_USD)
    .option('--threshold <scorer:share>', 'fail if a smaller share passes (may be repeated)', addThreshold)
    .option('--all', 'list verdicts that pass, too')
    .option('--yes', 'do not ask before more than a dollar is spent')
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action(judge);
}

function addGuideline(text: string, before: Record<string, string> = {}): Record<string, string> {
  const at = text.indexOf('=');
  const [name, sentence] = [text.slice(0, at).trim(), text.slice(at + 1).trim()];
  if (at < 1 || name === '' || sentence === '') {
    throw new InvalidArgumentError('expected name="A sentence about the reply."');
  }
  return { ...before, [name]: sentence };
}

type Threshold = NonNullable<JudgeFlags['threshold']>[number];

function addThreshold(text: string, before: Threshold[] = []): Threshold[] {
  const at = text.lastIndexOf(':');
  const atLeast = Number(text.slice(at + 1));
  if (at < 1 || text.slice(at + 1).trim() === '' || !(atLeast >= 0 && atLeast <= 1)) {
    throw new InvalidArgumentError('expected a scorer and a share from 0 to 1, such as safety:0.95');
  }
  return [...before, { scorer: text.slice(0, at), atLeast }];
}

async function judge(given: string, flags: JudgeFlags & { all?: boolean; json?: boolean }): Promise<void> {
  const { path, line } = parseLocation(given);
  const stopping = stopOnSignals(() => notice('Stopping. Press Ctrl-C again to leave immediately.'));
  try {
    const report = await judgeFiles(path, { line, ...flags }, stopping.signal);
    if (report === undefined) {
      process.exitCode = EXIT.notDone;
      notice('Nothing was asked.');
      return;
    }
    if (flags.json) writeJson('judge', report);
    else process.stdout.write(judgeText(report, flags.all, terminal()));
    process.exitCode = stopping.signal.aborted ? EXIT.interrupted : exitCodeOf(report);
  } finally {
    stopping.dispose();
  }
}

export function exitCodeOf({ verdicts, missing, failure, thresholds, unreadable }: JudgeReport): number {
  const isWhole = failure === undefined && Object.keys(missing).length === 0 && verdicts.length > 0;
  if (!isWhole) return EXIT.notDone;
  return thresholds.every(({ holds }) => holds) && unreadable.length === 0 ? EXIT.done : EXIT.found;
}
