/** Asks the judge one question, which costs money: whether it answers, in which form, and how long its answers are. */

import { resourceNames } from '../../src/core/contract/names.ts';
import type { CheckedSettings } from '../../src/core/settings/schema.ts';
import { dollars } from '../../src/core/text/figure-text.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { askCanary, canaryCapture, canaryScorers } from '../../src/judge/canary.ts';
import { judgeOf } from '../../src/judge/connect.ts';
import { answeredBefore } from '../../src/judge/errors.ts';
import { judgeName } from '../../src/judge/judge-id.ts';
import { Learned } from '../../src/judge/models/learned.ts';
import { OwnLimit } from '../../src/limits/spending-limit.ts';
import { limitsTable } from '../../src/limits/table.ts';
import { notice } from '../cli/output.ts';
import { functionVariables } from '../operate/aws-calls.ts';
import { broken, type CheckContext, checked, type Finding, type Found, ok, warning } from './finding.ts';

/** A judge may think. */
const ANSWER_LIMIT_MS = 120_000;

type AskContext = Pick<CheckContext, 'lambda' | 'region' | 'settings'>;

const REPAIR = 'check BEDROCK_MODEL_ID and MLFLOW_EVALUATION_MODEL_PARAM';

/** Turns the result of `checkAnswer` into a finding. */
export const askJudge = (context: AskContext, model: string): Promise<Finding[]> =>
  checked('answer', 'bedrock:InvokeModel', () => checkAnswer(context, model), ANSWER_LIMIT_MS);

/** Prints the maximum cost of the call before it is made, and stores its findings in the table of a deployed stack. */
export async function checkAnswer({ lambda, region, settings }: AskContext, BEDROCK_MODEL_ID: string): Promise<Found> {
  // The clients of the judge and of the table have the region of a function.
  process.env.AWS_REGION = region;
  const own = { ...(settings as CheckedSettings), BEDROCK_MODEL_ID };
  const { evaluator } = resourceNames(own.STACK_PREFIX);
  const { BUDGET_TABLE = '' } = await functionVariables(lambda, evaluator).catch(() => ({}) as Record<string, string>);
  const learned = new Learned(BEDROCK_MODEL_ID, BUDGET_TABLE ? limitsTable({ BUDGET_TABLE }) : undefined);
  await learned.ready();
  const judge = judgeOf({ ...own, shared: { learned: () => learned } }, { maxAnswers: 1 });
  const scorers = canaryScorers(activeScorers(own));
  const most = judge.maxCostUsd(canaryCapture, scorers);
  if (most === null) return warning('The judge was not asked: its price is unknown.', 'set JUDGE_PRICES');
  notice(`Asking ${judgeName(BEDROCK_MODEL_ID)} one question, for ${dollars(most)} at most.`);
  // A call that may have been paid without an answer leaves no room for another call. Refused and throttled calls cost
  // nothing.
  const answer = await askCanary(judge, scorers, { limit: new OwnLimit(most) }).catch((error: Error) => error);
  if (answer instanceof Error) {
    const paid = answeredBefore(answer).spend.usd;
    const why = paid ? `its reply cannot be read, and may have cost ${dollars(paid)}` : answer.message;
    return broken(`The judge did not answer: ${why}.`, REPAIR);
  }
  await learned.save();
  const { verdicts, spend } = answer;
  const error = verdicts.find((verdict) => verdict.outcome === 'error')?.error;
  const given = verdicts.filter(({ outcome }) => outcome === 'verdict').length;
  const said = `The judge answered ${given} of ${scorers.length} questions in ${spend.outputTokens} tokens, for ${dollars(spend.usd)}`;
  if (error === undefined) return ok(`${said}.`);
  // Captures get a longer answer from now on.
  if (error.code === 'JudgeReplyCut') return warning(`${said}; it thinks for longer than its answer has room.`);
  return broken(`${said}; ${error.code}: ${error.message}.`, REPAIR);
}
