/** Decides a gate while its replay is running, so that no more is sent and judged than it needs. */
import { toNamedError } from '../../shared/errors.ts';
import { type JudgedAll, type JudgeSettings, judgeAll, noneJudged } from '../compare/judge-replies.ts';
import type { PairVerdict } from '../compare/pairwise.ts';
import { pairOf } from '../compare/replies-file.ts';
import type { LivePairs } from './live-pairs.ts';
import { type Look, SequentialGate, type SequentialOptions } from './sequential-gate.ts';
import { countsVerdicts, needsReplies } from './thresholds.ts';
import type { GateResult } from './types.ts';

export interface UntilDecidedOptions extends SequentialOptions {
  pairs: LivePairs;
  /** Asks the judge about the pairs that differ, for thresholds that count its verdicts. */
  judging?: JudgeSettings;
}

/** How a gate was decided while its replay ran. */
export interface LookedAt {
  gate: GateResult;
  looks: readonly Look[];
  /** Requests of the schedule up to the last look. */
  requests: number;
  endedBy: 'all thresholds decided' | 'end of the judge' | 'end of the captures';
}

/** What the judge said, by the id of the request. */
export interface LiveVerdicts extends JudgedAll {
  byRequest: ReadonlyMap<string, PairVerdict>;
  failure?: { name: string; message: string };
}

export class UntilDecided {
  readonly #pairs: LivePairs;
  readonly #judging: JudgeSettings | undefined;
  readonly #gate: SequentialGate;
  readonly #byRequest = new Map<string, PairVerdict>();
  readonly #judged: JudgedAll = noneJudged();
  #judgeFailure: LiveVerdicts['failure'];
  #isCancelled = false;

  constructor({ pairs, judging, ...gate }: UntilDecidedOptions) {
    this.#pairs = pairs;
    this.#judging = judging;
    this.#gate = new SequentialGate(gate);
  }

  /**
   * Looks at the pairs again and again, until every threshold is decided or the captures have ended. A look waits for all
   * requests up to its size: the replies that happen to come first are not like the others.
   *
   * @returns `undefined` if it was canceled before
   */
  async run(): Promise<LookedAt | undefined> {
    let last = -1;
    for (;;) {
      const next = this.#gate.next;
      await this.#judge(Math.max(0, last), next.size);
      const size = await this.#pairs.settled(next.size);
      if (this.#isCancelled) return undefined;
      const isEnd = next.isEnd || size < next.size;
      if (size > last) this.#gate.look(this.#pairs.compared(size, this.#judging !== undefined), size, isEnd);
      last = size;
      const endedBy = this.#endedBy(isEnd);
      if (!endedBy) continue;
      const { result: gate, taken: looks } = this.#gate;
      return { gate, looks, requests: this.#pairs.requestsUpTo(size), endedBy };
    }
  }

  /** Takes no further look. */
  cancel(): void {
    this.#isCancelled = true;
  }

  /** Pairs of the next look. */
  get nextSize(): number {
    return this.#gate.next.size;
  }

  /** Whether all thresholds that are not decided ask about replies. */
  get isOnlyAboutReplies(): boolean {
    return this.#gate.open.every(needsReplies);
  }

  /** The judge's verdicts so far; `undefined` if none was asked for. */
  get verdicts(): LiveVerdicts | undefined {
    if (!this.#judging) return undefined;
    const failure = this.#judgeFailure;
    return { ...this.#judged, byRequest: this.#byRequest, ...(failure ? { failure } : {}) };
  }

  /** Why nothing further can be decided; `undefined` while it can. */
  #endedBy(isEnd: boolean): LookedAt['endedBy'] | undefined {
    const { open } = this.#gate;
    if (open.length === 0) return 'all thresholds decided';
    const isJudgeGone = this.#judgeFailure !== undefined || this.#judged.judged.overBudget > 0;
    if (isJudgeGone && open.every(countsVerdicts)) return 'end of the judge';
    return isEnd ? 'end of the captures' : undefined;
  }

  /** Asks the judge about the pairs of a range, as they come. */
  async #judge(from: number, to: number): Promise<void> {
    const judging = this.#judging;
    if (this.#isCancelled || !judging || this.#judgeFailure || !this.#gate.open.some(countsVerdicts)) return;
    try {
      await judgeAll(
        judging,
        this.#pairs.settledBetween(from, to),
        ({ replies }) => replies && pairOf(replies),
        (pair, verdict) => {
          pair.verdict = verdict;
          if (verdict && pair.replies) this.#byRequest.set(pair.replies.request_id, verdict);
        },
        this.#judged,
      );
    } catch (error) {
      this.#judgeFailure = toNamedError(error);
    }
  }
}
