/** The state of judging one capture: the spend so far, and each scorer's outcome so far. */
import type { AssessmentValue } from '../mlflow/types.ts';
import type { VerdictProblem } from './errors.ts';
import {
  type Amount,
  addAmounts,
  cacheUseOf,
  divideCall,
  noAmount,
  type PriceOfCall,
  verdictUsage,
} from './pricing/call-amounts.ts';
import type { CacheUse, CallUsage, JudgeMoney, JudgeResult, JudgeScorer, Verdict } from './types.ts';

type Outcome =
  | { outcome: 'verdict'; value: AssessmentValue; rationale: string }
  | { outcome: 'error'; error: VerdictProblem };

export class Session {
  private calls = 0;
  private cache: CacheUse = {};
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

  /** Books a call on the scorers that it asked, in proportion to the length of their answers. */
  book(usage: CallUsage, asked: readonly JudgeScorer[], answerChars: readonly number[] = asked.map(() => 0)): void {
    this.calls += 1;
    if (usage.asksForCache) this.cache = cacheUseOf(usage, this.cache);
    divideCall(usage, this.price, answerChars).forEach((amount, index) => {
      const name = asked[index]?.name ?? '';
      this.amounts.set(name, addAmounts(this.amountOf(name), amount));
    });
  }

  answer(scorer: JudgeScorer, value: AssessmentValue, rationale: string): void {
    this.outcomes.set(scorer.name, { outcome: 'verdict', value, rationale });
  }

  /** Records the error for those of the scorers that have no verdict. */
  fail(scorers: readonly JudgeScorer[], error: VerdictProblem): void {
    for (const { name } of scorers) {
      if (this.outcomes.get(name)?.outcome !== 'verdict') this.outcomes.set(name, { outcome: 'error', error });
    }
  }

  private amountOf(name: string): Amount {
    return this.amounts.get(name) ?? noAmount();
  }

  /** Verdicts and error verdicts so far, in the order of the scorers, and everything that was spent. */
  result(): JudgeResult {
    const verdicts = this.scorers.flatMap(({ name }): Verdict[] => {
      const outcome = this.outcomes.get(name);
      return outcome === undefined ? [] : [{ scorer: name, ...outcome, usage: verdictUsage(this.amountOf(name)) }];
    });
    const total = [...this.amounts.values()].reduce(addAmounts, noAmount());
    return { verdicts, spend: { calls: this.calls, ...verdictUsage(total), ...this.cache } };
  }
}
