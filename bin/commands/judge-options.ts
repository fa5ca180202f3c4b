/** The options of `judge`. */
import { InvalidArgumentError } from 'commander';
import { argument, type FlagsOf, JUDGE_BUDGET, numbers, option, options, parsed } from '../cli/options.ts';
import { jsonOption } from '../cli/output.ts';

/** At about two cents each, within the budget. */
const DEFAULT_LIMIT = 50;
const DEFAULT_BUDGET_USD = 1;

export const JUDGE_OPTIONS = options(
  argument('<captures>', 'a capture file, file:line, or a folder'),
  option('--scorer <names...>', 'only these scorers'),
  option('--guideline <name=sentence>', 'a sentence that the reply must comply with (may be repeated)', addGuideline),
  option('--judge-model <id>', 'the judge to ask (default: BEDROCK_MODEL_ID); stand-in: simple rules; none'),
  option('--limit <count>', 'judge at most this many captures', parsed(numbers.count, DEFAULT_LIMIT)),
  option('--budget <dollars>', JUDGE_BUDGET, parsed(numbers.amount, DEFAULT_BUDGET_USD)),
  option('--at-least <scorer:share>', 'fail if a smaller share passes (may be repeated)', addObjective),
  option('--all', 'list verdicts that pass, too'),
  option('--yes', 'do not ask before more than a dollar is spent'),
  jsonOption(),
);
export type JudgeFlags = Omit<FlagsOf<typeof JUDGE_OPTIONS>, 'captures' | 'all' | 'json'> & {
  line?: number | undefined;
};

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
