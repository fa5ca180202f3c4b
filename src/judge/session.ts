/** The judging of one capture while it goes on: what was spent, and what each scorer has so far. */

import type { AssessmentValue } from '../mlflow/types.ts';
import type { VerdictErrorCode } from './errors.ts';
import type { CallUsage } from './model-answer.ts';
import {
  type Amount,
  addAmounts,
  divideCall,
  noAmount,
  type PriceOfCall,
  verdictUsage,
} from './pricing/call-amounts.ts';
import type { JudgeMoney, JudgeResult, JudgeScorer, Verdict } from './types.ts';

type Outcome =
  | { outcome: 'verdict'; value: AssessmentValue; rationale: string }
  | { outcome: 'error'; error: { code: string; message: string } };

export class Session {
  private calls = 0;
  private readonly amounts = new Map<string, Amount>();
  private readonly outcomes = new Map<string, Outcome>();
  private readonly price: PriceOfCall;
  private readonly scorers: readonly JudgeScorer[];
  readonly money: JudgeMoney;

  constructor(scorers: readonly JudgeScorer[], price: PriceOfCall, money: JudgeMoney) {
    this.scorers = scorers;
    this.price = price;
    this.money = money;
  }

  /** Books an answered call on the scorers it was made for, by the length of their answers. */
  book(usage: CallUsage, asked: readonly JudgeScorer[], answerChars: readonly number[] = asked.map(() => 0)): void {
    this.calls += 1;
    divideCall(usage, this.price, answerChars).forEach((amount, index) => {
      const name = asked[index]?.name ?? '';
      this.amounts.set(name, addAmounts(this.amounts.get(name) ?? noAmount(), amount));
    });
  }

  answer(scorer: JudgeScorer, value: AssessmentValue, rationale: string): void {
    this.outcomes.set(scorer.name, { outcome: 'verdict', value, rationale });
  }

  has({ name }: JudgeScorer): boolean {
    return this.outcomes.get(name)?.outcome === 'verdict';
  }

  fail(scorers: readonly JudgeScorer[], code: VerdictErrorCode, message: string): void {
    for (const { name } of scorers) this.outcomes.set(name, { outcome: 'error', error: { code, message } });
  }

  private verdict(name: string): Verdict | undefined {
    const outcome = this.outcomes.get(name);
    const usage = verdictUsage(this.amounts.get(name) ?? noAmount());
    return outcome && { scorer: name, ...outcome, usage };
  }

  /** All that was spent, whether it led to a verdict or not. */
  spend(): JudgeResult['spend'] {
    const total = [...this.amounts.values()].reduce(addAmounts, noAmount());
    return { calls: this.calls, ...verdictUsage(total) };
  }

  /** Verdicts and error verdicts so far, in the order of the scorers. */
  verdicts(): Verdict[] {
    return this.scorers.flatMap(({ name }) => this.verdict(name) ?? []);
  }
}
