/**
 * How far the evaluation of a shard is. It is saved after every batch, behind the batch's own lines: whoever goes on begins
 * where the last save says, and what had been done since is done again.
 */

import { replayKeys } from '../../../contract/replay.ts';
import { PermanentError } from '../../../shared/errors.ts';
import type { Storage } from '../../../shared/storage.ts';
import { type JudgedAll, noneJudged } from '../../compare/judge-replies.ts';
import type { AssessedVerdicts } from '../../publish/write-assessments.ts';
import { EVALUATION_FILES } from '../keys.ts';

/** Kinds of lines that an evaluation writes; the files of the result set are made of them. */
export type PartKind = 'judged' | 'worse' | 'refused';

export interface EvaluationProgress {
  shard: number;
  done: boolean;
  traces: {
    /** First byte of the spool whose trace is not in MLflow yet. */
    offset: number;
    written: number;
    refused: number;
    /** `false`: the server cannot show traces under a run. */
    linked: boolean;
  };
  pairs: JudgedAll & {
    /** First byte of the replies that has not been dealt with. */
    offset: number;
    /** First bytes of further replies that have been judged already. */
    ahead: number[];
  };
  /** Verdicts in MLflow, on the traces of their requests. */
  assessments: AssessedVerdicts & {
    /** How many of the parts with verdicts have been dealt with. */
    parts: number;
  };
  /** Names of the objects beside this one, in the order in which they were written. */
  parts: Record<PartKind, string[]>;
}

export const newProgress = (shard: number): EvaluationProgress => ({
  shard,
  done: false,
  traces: { offset: 0, written: 0, refused: 0, linked: true },
  pairs: { ...noneJudged(), offset: 0, ahead: [] },
  assessments: { parts: 0, written: 0, withoutTrace: 0 },
  parts: { judged: [], worse: [], refused: [] },
});

const DIGITS = 6;

export class ProgressFile {
  readonly #storage: Storage;
  readonly #bucket: string;
  readonly #prefix: string;
  readonly #shard: number;

  constructor(storage: Storage, bucket: string, { run, shard }: { run: string; shard: number }) {
    this.#storage = storage;
    this.#bucket = bucket;
    this.#prefix = replayKeys.evaluationPrefix(run, shard);
    this.#shard = shard;
  }

  async read(): Promise<EvaluationProgress> {
    const stored = await this.#storage.getJson<EvaluationProgress>(this.#bucket, this.#key(EVALUATION_FILES.progress));
    return { ...newProgress(this.#shard), ...stored };
  }

  /**
   * The lines of a part that the progress names.
   *
   * @throws PermanentError `ShardFileMissing`
   */
  async lines(name: string): Promise<string[]> {
    const key = this.#key(name);
    const stored = await this.#storage.getText(this.#bucket, key);
    if (stored) return stored.text.split('\n').filter((line) => line !== '');
    throw new PermanentError('ShardFileMissing', 'What the evaluation of the shard has written is gone', {
      where: `s3://${this.#bucket}/${key}`,
    });
  }

  /** @param lines what the batch has added; written first, so that nothing is named that is not there */
  async save(progress: EvaluationProgress, lines: Partial<Record<PartKind, readonly string[]>>): Promise<void> {
    for (const [kind, added] of Object.entries(lines) as [PartKind, readonly string[]][]) {
      if (added.length === 0) continue;
      const parts = progress.parts[kind];
      const name = `${kind}-${String(parts.length).padStart(DIGITS, '0')}.jsonl`;
      const text = `${added.join('\n')}\n`;
      await this.#storage.putText(this.#bucket, this.#key(name), text, 'application/jsonlines');
      parts.push(name);
    }
    await this.#storage.putJson(this.#bucket, this.#key(EVALUATION_FILES.progress), progress);
  }

  async fail(failure: { name: string; message: string }): Promise<void> {
    await this.#storage.putJson(this.#bucket, this.#key(EVALUATION_FILES.failure), failure);
  }

  #key(name: string): string {
    return `${this.#prefix}${name}`;
  }
}
