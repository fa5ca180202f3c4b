/** The gate of a running replay, from its first request to the comparison in its results. */
import { compareRuns, type Judging, type RunsComparison } from '../compare/compare-runs.ts';
import { EarlierReplies } from '../compare/earlier-replies.ts';
import { type JudgeSettings, worseReply } from '../compare/judge-replies.ts';
import type { StoredReply } from '../compare/replies-file.ts';
import { type ComparedMetric, type RunData, readRun } from '../compare/run-data.ts';
import type { Measured } from '../measure/measure.ts';
import { writeComparison } from '../report/write-comparison.ts';
import type { PreparedRequest } from '../request/prepared.ts';
import { LivePairs } from './live-pairs.ts';
import type { SequentialOptions } from './sequential-gate.ts';
import { needsReplies } from './thresholds.ts';
import type { GateResult } from './types.ts';
import { type LiveVerdicts, type LookedAt, UntilDecided } from './until-decided.ts';

export interface LiveGateOptions extends SequentialOptions {
  /** With its requests named (`RequestTable.seal`). */
  baseline: RunData;
  /** Asks the judge about the pairs that differ. */
  judging?: JudgeSettings;
}

/** A gate that was decided while its replay ran, as `comparison.json` has it. */
export interface DecidedReplay {
  comparison: RunsComparison;
  gate: GateResult;
  untilDecided: Omit<LookedAt, 'gate'> & {
    sent: number;
    /** Requests that a single look would have needed, by the plan. */
    planned: number;
    /** Share of them that was not sent; negative: more was sent. */
    saved: number;
  };
}

export class LiveGate {
  readonly #options: LiveGateOptions;
  readonly #earlier: EarlierReplies | undefined;
  readonly #pairs: LivePairs;
  readonly #until: UntilDecided;
  readonly #running: Promise<LookedAt | undefined>;
  readonly #enough = new AbortController();
  #failure: { error: unknown } | undefined;

  private constructor(options: LiveGateOptions, earlier: EarlierReplies | undefined) {
    const { baseline, thresholds, judging } = options;
    this.#options = options;
    this.#earlier = earlier;
    const metrics = thresholds.flatMap((one): ComparedMetric[] => (one.kind === 'metric' ? [one.metric] : []));
    this.#pairs = new LivePairs(baseline, [...new Set(metrics)], earlier);
    this.#until = new UntilDecided({ ...options, pairs: this.#pairs, judging });
    this.#running = this.#run();
  }

  /** @throws PermanentError `NotAReplay` */
  static async open(options: LiveGateOptions): Promise<LiveGate> {
    const { thresholds, baseline } = options;
    return new LiveGate(options, thresholds.some(needsReplies) ? await EarlierReplies.open(baseline) : undefined);
  }

  /** Aborts once no further request is needed. The reason is a text. */
  get enough(): AbortSignal {
    return this.#enough.signal;
  }

  get needsReplies(): boolean {
    return this.#earlier !== undefined;
  }

  /** Call it for each request before it is sent, in the order of the schedule. */
  announce(request: PreparedRequest): void {
    this.#pairs.announce(request);
  }

  /**
   * Whether the request can wait: with thresholds on replies alone, which do not depend on the load, none is sent beyond the next
   * look before that was taken. The judge may need longer than the target.
   */
  isHeld({ ordinal }: PreparedRequest): boolean {
    return this.#until.isOnlyAboutReplies && ordinal >= (this.#pairs.requestsUpTo(this.#until.nextSize) || Infinity);
  }

  /** @param stored the reply, if `needsReplies` */
  ended(measured: Measured, stored: StoredReply | undefined): void {
    this.#pairs.ended(measured, stored).catch((error: unknown) => this.#fail(error));
  }

  /**
   * Decides the gate when all requests have ended, and writes the comparison with the baseline.
   *
   * @param directory of the replay's results
   * @param withPage also writes `comparison.html`
   * @param isCancelled the replay was stopped before it was decided
   * @returns `undefined` if it was not decided for that reason
   * @throws PermanentError `NotAReplay`
   */
  async finish(
    directory: string,
    { sent, withPage, isCancelled }: { sent: number; withPage: boolean; isCancelled: boolean },
  ): Promise<DecidedReplay | undefined> {
    if (isCancelled) this.#until.cancel();
    this.#pairs.over();
    const found = await this.#running;
    await this.#earlier?.close();
    if (this.#failure) throw this.#failure.error;
    if (!found) return undefined;
    const { baseline, planned } = this.#options;
    const before = await readRun(baseline.directory, baseline.location);
    const verdicts = this.#until.verdicts;
    const after = await readRun(directory);
    const { comparison } = await compareRuns(before, after, verdicts && knownVerdicts(verdicts));
    const { gate, ...looked } = found;
    const untilDecided = { ...looked, sent, planned, saved: 1 - sent / planned };
    await writeComparison(directory, { comparison, gate, untilDecided, runs: [before, after] }, withPage);
    return { comparison, gate, untilDecided };
  }

  async #run(): Promise<LookedAt | undefined> {
    try {
      const found = await this.#until.run();
      if (found) this.#enough.abort(ENOUGH[found.endedBy]);
      return found;
    } catch (error) {
      this.#fail(error);
      return undefined;
    }
  }

  #fail(error: unknown): void {
    this.#failure ??= { error };
    this.#enough.abort('the gate can no longer be decided');
    this.#until.cancel();
    this.#pairs.over();
  }
}

const ENOUGH = {
  'all thresholds decided': 'all thresholds of the gate are decided',
  'end of the judge': 'the judge gives no further verdicts, and the open thresholds need them',
  'end of the captures': 'the baseline has no further requests',
} as const satisfies Record<LookedAt['endedBy'], string>;

/** Adds the verdicts that the judge gave while the replay ran. */
const knownVerdicts =
  ({ judged, usd, byRequest, failure }: LiveVerdicts): Judging =>
  async (tally, pairs) => {
    for await (const pair of pairs) {
      const verdict = byRequest.get(pair.request_id);
      const worse = verdict && worseReply(pair, verdict);
      if (worse) tally.addJudgedWorse(worse);
    }
    tally.quality.judged = judged;
    return { judgeUsd: usd, ...(failure ? { judgeFailure: failure } : {}) };
  };
