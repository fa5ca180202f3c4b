/** Compares every reply of a run with the captured one, while the run goes on. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Measured } from '../measure/measure.ts';
import { LineWriter } from '../results/line-writer.ts';
import { compareReplies } from './compare-replies.ts';
import {
  type JudgedAll,
  type JudgeFailure,
  type JudgeSettings,
  judgedLine,
  judgeMost,
  pairOf,
} from './judge-replies.ts';
import type { PairVerdict } from './pairwise.ts';
import { type Quality, QualityTally, type RegressionRow } from './quality.ts';
import { REPLIES_FILE, readReplies, replyText, type StoredReply, storedReply } from './replies-file.ts';
import { replayedReply, replyOf } from './reply.ts';

export const COMPARE_FILE = 'compare.json';
export const JUDGED_FILE = 'judged.jsonl';

export interface CapturedComparison {
  quality: Quality;
  /** Requests whose capture has no reply to compare with. */
  withoutCaptured: number;
  regressions: RegressionRow[];
  /** What the judge cost; `null`: its price is not known. */
  judgeUsd?: number | null;
  /** Why not all pairs are judged; what it had said by then is counted. */
  judgeFailure?: JudgeFailure;
}

/** What a person needs to see of a reply that got worse. */
export const rowOf = (stored: StoredReply): Omit<RegressionRow, 'regressions' | 'overlap'> => ({
  key: stored.key,
  eventId: stored.event_id,
  file: stored.file,
  line: stored.line,
  input: stored.input,
  before: stored.captured ? replyText(stored.captured) : '',
  after: replyText(stored.reply),
});

/** The reply of a request, compared with the captured one where there is one. */
export function comparedReply(measured: Measured): StoredReply {
  const reply = replayedReply(measured);
  const { captured } = measured.request;
  // A cancelled request says nothing about the target's replies, and of one that is too large nothing is known.
  const before = captured && !measured.cancelled && !measured.exchange.tooLarge ? replyOf(captured) : undefined;
  return storedReply(measured, reply, before, before && compareReplies(before, reply));
}

export class CapturedReplies {
  readonly #directory: string;
  readonly #file: LineWriter;
  readonly #tally = new QualityTally();
  #withoutCaptured = 0;

  constructor(directory: string) {
    this.#directory = directory;
    this.#file = new LineWriter(join(directory, REPLIES_FILE));
  }

  /** Compares the reply; what it returns keeps the comparison. */
  read(measured: Measured): () => void {
    const stored = comparedReply(measured);
    const line = JSON.stringify(stored);
    return () => {
      this.#file.write(line);
      if (stored.comparison) this.#tally.add(stored.comparison, () => rowOf(stored));
      else this.#withoutCaptured++;
    };
  }

  /**
   * Completes the files; with a judge, every pair that differs is judged. A judge that fails half way, or is stopped, loses
   * nothing: what it has said is in the result, beside why it said no more.
   */
  async finish(judging?: JudgeSettings): Promise<CapturedComparison> {
    await this.#file.close();
    const judged = judging && (await this.#judge(judging));
    if (judged) this.#tally.quality.judged = judged.judged;
    const result: CapturedComparison = {
      quality: this.#tally.quality,
      withoutCaptured: this.#withoutCaptured,
      regressions: this.#tally.worst(),
      ...(judged ? { judgeUsd: judged.usd } : {}),
      ...(judged?.failure ? { judgeFailure: judged.failure } : {}),
    };
    await writeFile(join(this.#directory, COMPARE_FILE), `${JSON.stringify(result, null, 1)}\n`);
    return result;
  }

  async #judge(judging: JudgeSettings): Promise<JudgedAll & { failure?: JudgeFailure }> {
    const verdicts = new LineWriter(join(this.#directory, JUDGED_FILE));
    const replies = readReplies(join(this.#directory, REPLIES_FILE));
    const onDone = (item: StoredReply, verdict?: PairVerdict): void => {
      if (!verdict) return;
      verdicts.write(judgedLine(item, judging.judge.sourceId, verdict));
      if (verdict.verdict === 'worse' && item.comparison) {
        this.#tally.addJudgedWorse(rowOf(item), item.comparison, verdict.rationales[0]);
      }
    };
    try {
      return await judgeMost(judging, replies, pairOf, onDone);
    } finally {
      await verdicts.close();
    }
  }
}
