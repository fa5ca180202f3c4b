/** Compares each reply with the captured one while the replay runs. */

import { join } from 'node:path';
import type { Measured } from '../measure/measure.ts';
import { LineWriter, writeWhole } from '../results/line-writer.ts';
import { type JudgeSettings, type JudgingResult, judgeReplies } from './judge-replies.ts';
import { type Quality, type RegressionRow, ReplyQualityTally } from './quality.ts';
import { comparedReply, REPLIES_FILE, readReplies } from './replies-file.ts';

export const COMPARE_FILE = 'compare.json';
export const JUDGED_FILE = 'judged.jsonl';

/** `compare.json`. */
export interface CapturedComparison extends JudgingResult {
  quality: Quality;
  /** Number of requests whose capture has no reply to compare with. */
  withoutCaptured: number;
  regressions: RegressionRow[];
}

/**
 * Writes `replies.jsonl` and `compare.json`, and with a judge `judged.jsonl`.
 *
 * @param onError called when `replies.jsonl` can no longer be written; `close` throws the error as well
 */
export function capturedReplies(directory: string, onError?: (error: Error) => void) {
  const file = new LineWriter(join(directory, REPLIES_FILE), onError);
  const tally = new ReplyQualityTally();
  const judge = async (judging: JudgeSettings): Promise<JudgingResult> => {
    const verdicts = new LineWriter(join(directory, JUDGED_FILE));
    try {
      return await judgeReplies(tally, judging, readReplies(file.path), (line) => verdicts.write(JSON.stringify(line)));
    } finally {
      await verdicts.close();
    }
  };
  return {
    tally,
    /** Compares the reply. The returned function records the comparison. */
    read: (measured: Measured, stored = comparedReply(measured)) => {
      const line = JSON.stringify(stored);
      return () => {
        file.write(line);
        tally.add(stored);
      };
    },
    /**
     * Completes the files. With a judge, all replies that differ are judged. If the judge fails or is stopped, the result has
     * its verdicts so far and the reason.
     */
    finish: async (judging?: JudgeSettings): Promise<CapturedComparison> => {
      await file.close();
      const judged = judging && (await judge(judging));
      const result: CapturedComparison = { ...tally.result(), ...judged };
      await writeWhole(join(directory, COMPARE_FILE), `${JSON.stringify(result, null, 1)}\n`);
      return result;
    },
    /** Completes the file of replies alone. @throws PermanentError `ResultsNotWritten` */
    close: () => file.close(),
  };
}
