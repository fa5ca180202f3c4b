/** The state of judging one capture: the spend so far, and each scorer's outcome so far. */
import type { AssessmentValue } from '../mlflow/types.ts';
import type { VerdictProblem } from './errors.ts';
import { cacheUseOf, divideCall, type PriceOfCall } from './pricing/call-amounts.ts';
import { addSpend, emptySpend, sumUsage } from './spend.ts';
import type { CallUsage, JudgeMoney, JudgeResult, JudgeScorer, Verdict, VerdictUsage } from './types.ts';

type Outcome =
  | { outcome: 'verdict'; value: AssessmentValue; rationale: string }
  | { outcome: 'error'; error: VerdictProblem };

const NO_USAGE: VerdictUsage = { inputTokens: 0, outputTokens: 0, usd: 0 };

export class Session {
  private readonly spend = emptySpend();
  private readonly usage = new Map<string, VerdictUsage>();
  private readonly outcomes = new Map<string, Outcome>();
  private readonly price: PriceOfCall;
  private readonly scorers: readonly JudgeScorer[];
  readonly money: JudgeMoney;

  constructor(scorers: readonly JudgeScorer[], price: PriceOfCall, money: JudgeMoney) {
    this.scorers = scorers;
    this.price = price;
    this.money = money;
  }

  /** Charges a call to its scorers, in proportion to the length of their answers. */
  charge(usage: CallUsage, asked: readonly JudgeScorer[], answerChars: readonly number[] = asked.map(() => 0)): void {
    const parts = divideCall(usage, this.price, answerChars);
    addSpend(this.spend, { calls: 1, ...parts.reduce(sumUsage, NO_USAGE), ...cacheUseOf(usage) });
    for (const [index, { name }] of asked.entries()) {
      this.usage.set(name, sumUsage(this.usageOf(name), parts[index] ?? NO_USAGE));
    }
  }

  answer(scorer: JudgeScorer, value: AssessmentValue, rationale: string): void {
    this.outcomes.set(scorer.name, { outcome: 'verdict', value, rationale });
  }

  /** Records the error for each of the scorers without a verdict. */
  fail(scorers: readonly JudgeScorer[], error: VerdictProblem): void {
    for (const { name } of scorers) {
      if (this.outcomes.get(name)?.outcome !== 'verdict') this.outcomes.set(name, { outcome: 'error', error });
    }
  }

  private usageOf(name: string): VerdictUsage {
    return this.usage.get(name) ?? NO_USAGE;
  }

  /** Returns the verdicts and error verdicts so far, in the order of the scorers, and the total spend. */
  result(): JudgeResult {
    const verdicts = this.scorers.flatMap(({ name }): Verdict[] => {
      const outcome = this.outcomes.get(name);
      return outcome === undefined ? [] : [{ scorer: name, ...outcome, usage: this.usageOf(name) }];
    });
    return { verdicts, spend: { ...this.spend } };
  }
}
