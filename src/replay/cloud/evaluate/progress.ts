/**
 * How far the evaluation of a shard is. It is saved after every batch, once the batch's own lines are: the next call
 * continues at the last save and repeats whatever came after it.
 */

import type { Storage } from '../../../core/aws/storage.ts';
import { replayKeys } from '../../../core/contract/work-keys.ts';
import { PermanentError } from '../../../core/errors/errors.ts';
import { type JudgedAll, noneJudged } from '../../compare/judge-replies.ts';
import type { AssessedVerdicts } from '../../publish/write-assessments.ts';
import { EVALUATION_FILES } from '../work-bucket/keys.ts';
import type { StoredPlan } from '../work-bucket/stored-plan.ts';

/** The context of evaluating one shard. */
export interface ShardWork {
  storage: Storage;
  plan: StoredPlan;
  progress: EvaluationProgress;
  file: ProgressFile;
  remainingMs(): number;
  isStopped(): Promise<boolean>;
}

/** How a step ended. Once a replay is stopped, the judge is not paid any more. */
export type StepEnd = 'done' | 'outOfTime' | 'stopped';

/** Kinds of lines that an evaluation writes. They are merged into files of the result set. */
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
    /** First byte of the replies that is not processed yet. */
    offset: number;
    /** First bytes of replies after `offset` that are judged already. */
    ahead: number[];
  };
  /** Verdicts that are in MLflow as assessments. */
  assessments: AssessedVerdicts & {
    /** Number of parts with verdicts that are written. */
    parts: number;
  };
  /** Names of the objects with lines, in the order in which they were written. */
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

/** A file of a shard that an earlier step wrote is gone: somebody deleted it. */
export const shardFileMissing = (bucket: string, key: string): PermanentError =>
  new PermanentError('ShardFileMissing', 'A file of the shard is missing', { where: `s3://${bucket}/${key}` });

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
   * Reads the lines of a part.
   *
   * @throws PermanentError `ShardFileMissing`
   */
  async lines(name: string): Promise<string[]> {
    const key = this.#key(name);
    const stored = await this.#storage.getText(this.#bucket, key);
    if (stored) return stored.text.split('\n').filter((line) => line !== '');
    throw shardFileMissing(this.#bucket, key);
  }

  /** @param lines the lines of the batch; written first, so that the progress never names a missing object */
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

  /** Records why an evaluation ended early, for the summary. */
  async fail(failure: { name: string; message: string }): Promise<void> {
    await this.#storage.putJson(this.#bucket, this.#key(EVALUATION_FILES.failure), failure);
  }

  #key(name: string): string {
    return `${this.#prefix}${name}`;
  }
}
