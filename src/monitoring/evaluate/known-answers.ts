/** The judge's answers of this process, by trace and by request. */

import type { JudgeSpend } from '../../core/contract/receipts.ts';
import { VERDICT_ERRORS } from '../../judge/errors.ts';
import type { JudgeScorer, Verdict } from '../../judge/types.ts';

/** The answers to one request of the judge, or a part of them. */
export interface NewAnswer {
  trace: string;
  /** The digest of the request; see `questionOf`. */
  ask?: string | undefined;
  judge: string;
  answers: { version: string; verdict: Verdict }[];
  /** What the first model of a cascade has answered, and left to the judge. */
  leftOpen?: { scorer: string; version: string }[] | undefined;
  /** Every scorer of the request has its answer. */
  whole: boolean;
  spend: JudgeSpend;
}

export class KnownAnswers {
  readonly #byTrace = new Map<string, NewAnswer[]>();
  readonly #byAsk = new Map<string, NewAnswer>();

  /** @returns the verdicts on a trace that were answered before */
  known(traceId: string, scorers: readonly JudgeScorer[], judge: string): Verdict[] {
    const all = (this.#byTrace.get(traceId) ?? []).filter((kept) => kept.judge === judge);
    return scorers.flatMap(({ name, version }) => {
      const found = all
        .flatMap(({ answers }) => answers)
        .filter((answer) => answer.version === version && answer.verdict.scorer === name);
      return (found.find(isVerdict) ?? found[0])?.verdict ?? [];
    });
  }

  /** @returns the scorers without a verdict on the trace */
  openOf(traceId: string, scorers: readonly JudgeScorer[], judge: string): JudgeScorer[] {
    const known = new Set(this.known(traceId, scorers, judge).map(({ scorer }) => scorer));
    return scorers.filter(({ name }) => !known.has(name));
  }

  /** @returns the names of the scorers about which only the judge is to be asked, not the first model of its cascade */
  leftOpen(traceId: string, scorers: readonly JudgeScorer[], judge: string): ReadonlySet<string> {
    const left = (this.#byTrace.get(traceId) ?? []).flatMap((kept) => (kept.judge === judge && kept.leftOpen) || []);
    const isLeft = ({ name, version }: JudgeScorer): boolean =>
      left.some((open) => open.scorer === name && open.version === version);
    return new Set(scorers.filter(isLeft).map(({ name }) => name));
  }

  /** @returns the whole answer to the same request about another trace */
  answered(ask: string, judge: string): NewAnswer | undefined {
    const kept = this.#byAsk.get(ask);
    return kept?.judge === judge ? kept : undefined;
  }

  /** Looks up the answer to a request among those of another chunk of the run. */
  async answeredIn(_chunk: number, ask: string, judge: string): Promise<NewAnswer | undefined> {
    return this.answered(ask, judge);
  }

  keep(answer: NewAnswer): void {
    this.#byTrace.set(answer.trace, [...(this.#byTrace.get(answer.trace) ?? []), answer]);
    this.learnAsk(answer);
  }

  /** Learns the answer to a request about a trace of another chunk. */
  protected learnAsk(answer: NewAnswer): void {
    const holds = answer.whole && answer.answers.every(({ verdict }) => wouldRecur(verdict));
    if (answer.ask !== undefined && holds) this.#byAsk.set(answer.ask, answer);
  }
}

const { guardrail, filtered, tooLong, rejected } = VERDICT_ERRORS;
/** In these the same request ends each time. Whether an answer can be read is chance. */
const RECURRING: ReadonlySet<string> = new Set([guardrail, filtered, tooLong, rejected]);

/** Whether the same request would end in the same way, so that its outcome holds for other captures. */
export const wouldRecur = (verdict: Verdict): boolean =>
  verdict.outcome === 'verdict' || RECURRING.has(verdict.error.code);

export const isVerdict = ({ verdict }: NewAnswer['answers'][number]): boolean => verdict.outcome === 'verdict';
