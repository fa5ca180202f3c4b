/**
 * The judge’s answers by question, in a separate DynamoDB table. An item is claimed by the chunk that asks, or has the
 * answer with its cost. Chunks of a run, and the retries that continue a run, find each other’s answers there.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { JudgeSpend } from '../../core/contract/receipts.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { RetryableError } from '../../core/errors/errors.ts';
import { forEachConcurrently, together } from '../../core/process/concurrency.ts';
import { addSpend, emptySpend } from '../../judge/spend.ts';
import { getAll, type NewItem } from '../../limits/many-items.ts';
import { asNumber, expiry, type Item, type ItemChange } from '../../limits/table.ts';
import { isRetry } from '../chunk/attempt.ts';
import { chainOf } from '../write/sent-traces.ts';
import { type AskedJob, type Kept, NOTHING_KEPT } from './answers.ts';
import type { EvaluateDependencies } from './types.ts';

/** A longer answer is an object in the work bucket. DynamoDB takes 400 KB. */
const MAX_ITEM_BYTES = 300_000;
const READS_AT_ONCE = 16;

/**
 * Intervals for checking the answer to a question that another chunk asks: the first, and the last if its function was
 * killed.
 */
const POLL_MS = 1_000;
const MAX_POLL_MS = 15_000;

/** Questions that come within this time are read together, and answers stored together. */
const GATHER_MS = 20;

type Change = Pick<ItemChange, 'expression' | 'condition' | 'values'>;

type AnswerDependencies = Pick<
  EvaluateDependencies,
  'answers' | 'putAll' | 'storage' | 'environment' | 'requestId' | 'remainingMs'
>;

/** The answers that an attempt at a chunk asks for. */
export class AnswerTable {
  readonly #deps: AnswerDependencies;
  readonly #request: ChunkRequest;
  /** Time at which the function has certainly ended, epoch milliseconds. Its claims end then. */
  readonly #untilMs: number;
  /** The chunk, which later attempts are made at too; see `workKeys.chunkOfRun`. */
  readonly #chunk: string;

  constructor(request: ChunkRequest, deps: AnswerDependencies) {
    this.#deps = deps;
    this.#request = request;
    this.#untilMs = Date.now() + deps.remainingMs();
    this.#chunk = workKeys.chunkOfRun(request.run, request.chunk.chunk);
  }

  /**
   * Claims a question, unless the stored data about it is sufficient. Waits while another chunk asks the same question.
   *
   * @returns the stored data
   * @throws RetryableError `ChunkOutOfTime` if the wait is aborted
   */
  async acquire(question: string, isEnough: (kept: Kept) => boolean, signal: AbortSignal): Promise<Kept> {
    for (let pollMs = POLL_MS; ; pollMs = Math.min(MAX_POLL_MS, 2 * pollMs)) {
      const kept = await this.#claim(question, isEnough);
      if (kept !== undefined) return kept;
      // Its answer is here within seconds, or its function has ended.
      await sleep(pollMs, undefined, { signal }).catch((cause: unknown) => {
        const where = `chunk ${this.#chunk}`;
        throw new RetryableError('ChunkOutOfTime', 'Another chunk asks the judge the same', { where }, cause);
      });
    }
  }

  /** @returns `undefined` while another chunk asks the same */
  async #claim(question: string, isEnough: (kept: Kept) => boolean): Promise<Kept | undefined> {
    const claim = {
      expression: 'SET #by = :by, #until = :until',
      condition: '(attribute_not_exists(#by) OR #by = :by OR #until < :now)',
      values: { by: this.#chunk, until: this.#untilMs, now: Date.now() },
    };
    // A single request suffices for a question that was not asked yet.
    const unasked = await this.#changeUnanswered(question, claim);
    if (unasked !== undefined) return this.#keptIn(unasked);
    const kept = await this.#get(question);
    if (isEnough(kept)) return kept;
    const before = await this.#change(question, claim);
    return before && this.#keptIn(before);
  }

  /**
   * Stores answers in place of the result of `acquire`, and ends the claim.
   *
   * @param spend payments of this attempt for them
   */
  async keep(question: string, kept: Kept, spend: JudgeSpend): Promise<void> {
    const expression = 'SET #answer = :answer, #ttl = :ttl REMOVE #by, #until';
    await this.#change(question, { expression, values: await this.#stored(question, kept, spend) });
  }

  async #stored(question: string, { job: _, ...kept }: Kept, spend: JudgeSpend): Promise<NewItem['values']> {
    const { storage, environment, requestId: by } = this.#deps;
    const paid = [...kept.paid, { chunk: this.#chunk, by, spend }];
    const text = JSON.stringify({ ...kept, paid: spend.calls > 0 ? paid : kept.paid });
    const isLong = Buffer.byteLength(text) > MAX_ITEM_BYTES;
    const key = workKeys.answer(chainOf(this.#request), question);
    if (isLong) await storage.putText(environment.WORK_BUCKET, key, text);
    // Compress the answer, because an item is billed by the KB, and compression halves rationales.
    return { answer: isLong ? key : deflateRawSync(text), ttl: expiry() };
  }

  /**
   * Returns these answers without claims, for questions to functions: a request to the table for each would take longer than the
   * question. Chunks that ask the same before the first answer is stored all ask, and pay.
   */
  unclaimed(): KeptAnswers {
    const { answers, putAll } = this.#deps;
    if (putAll === undefined) return this;
    const acquire = together(GATHER_MS, async (questions: readonly string[]) => {
      const items = await getAll(
        answers,
        questions.map((question) => this.#scopeOf(question)),
      );
      return Promise.all(questions.map((question) => this.#keptIn(items.get(this.#scopeOf(question)) ?? {})));
    });
    const put = together(GATHER_MS, async (items: readonly NewItem[]) => {
      await putAll(answers, items);
      return items;
    });
    return {
      acquire,
      keep: async (question, kept, spend) => {
        await put({ scope: this.#scopeOf(question), values: await this.#stored(question, kept, spend) });
      },
    };
  }

  /**
   * Lets other chunks ask immediately, because this chunk does not ask or got no answer. If this fails, they only wait
   * longer.
   */
  async release(question: string): Promise<void> {
    const expression = 'REMOVE #by, #until';
    const condition = '#by = :by';
    await this.#change(question, { expression, condition, values: { by: this.#chunk } }).catch(() => undefined);
  }

  /**
   * Leaves a question to the batch job of the chunk.
   *
   * @param isAnswered whether a job of an earlier run has answered
   * @returns the stored data; `claimed` if another chunk of the run has claimed the question, or an earlier run has and
   *   its job has answered
   */
  async acquireForJob(
    question: string,
    trace: string,
    isAnswered: (job: AskedJob) => Promise<boolean>,
  ): Promise<Kept | 'claimed'> {
    const { run, chunk } = this.#request;
    const { job, answers } = isRetry(this.#request) ? await this.#get(question) : NOTHING_KEPT;
    // If answers from that run are stored, it has already read its job's output.
    const isOpen = job !== undefined && job.run !== run && !answers.some((answer) => answer.run === job.run);
    if (isOpen && (await isAnswered(job))) return 'claimed';
    const claim = {
      expression: 'SET #jobRun = :run, #jobChunk = :chunk, #jobTrace = :trace',
      condition: '(attribute_not_exists(#jobRun) OR #jobRun <> :run OR #jobChunk = :chunk)',
      values: { run, chunk: chunk.chunk, trace },
    };
    const before = (await this.#changeUnanswered(question, claim)) ?? (await this.#change(question, claim));
    return before === undefined ? 'claimed' : this.#keptIn(before);
  }

  /** Returns the payments of other attempts at the chunk for these questions, by request id. */
  async paidByOthers(questions: ReadonlySet<string>): Promise<Record<string, JudgeSpend>> {
    const sums: Record<string, JudgeSpend> = {};
    await forEachConcurrently(READS_AT_ONCE, questions, async (question) => {
      const { paid } = await this.#get(question);
      for (const { by, spend } of paid.filter(({ chunk }) => chunk === this.#chunk)) {
        if (by === this.#deps.requestId) continue;
        sums[by] ??= emptySpend();
        addSpend(sums[by], spend);
      }
    });
    return sums;
  }

  /** Returns the content of an item. An expired item counts as absent, whether DynamoDB has deleted it or not. */
  async #keptIn({ answer, ttl, jobRun, jobChunk, jobTrace }: Item): Promise<Kept> {
    if (asNumber(ttl) * 1000 < Date.now()) return NOTHING_KEPT;
    const { storage, environment } = this.#deps;
    const kept: Kept | undefined =
      answer?.S === undefined
        ? answer?.B && read(answer.B)
        : await storage.getJson<Kept>(environment.WORK_BUCKET, answer.S);
    const { run, options } = this.#request;
    const asked = { run: jobRun?.S ?? '', chunk: asNumber(jobChunk), trace: jobTrace?.S ?? '' };
    const isOfChain = asked.run === run || options.continues?.includes(asked.run);
    return { ...(kept ?? NOTHING_KEPT), job: isOfChain ? asked : undefined };
  }

  async #get(question: string): Promise<Kept> {
    return this.#keptIn(await this.#deps.answers.get(this.#scopeOf(question)));
  }

  /** The time to live of an answer stays: one that expires must not come back. @returns the item before, if it was changed */
  #changeUnanswered(question: string, { expression, condition, values }: Change): Promise<Item | undefined> {
    return this.#change(question, {
      expression: `${expression}, #ttl = :ttl`,
      condition: `attribute_not_exists(#answer) AND ${condition}`,
      values: { ...values, ttl: expiry() },
    });
  }

  /** @returns the item before, if the condition was met */
  #change(question: string, change: Change): Promise<Item | undefined> {
    return this.#deps.answers.update({ scope: this.#scopeOf(question), ...change, returns: 'ALL_OLD' });
  }

  #scopeOf(question: string): string {
    return `${chainOf(this.#request)}#${question}`;
  }
}

/** Where answers are kept. Another process may hold a question for a while, until it is released; see `AnswerTable`. */
export type KeptAnswers = Pick<AnswerTable, 'acquire' | 'keep'> & Partial<Pick<AnswerTable, 'release'>>;

/** Returns answers that are kept in this process alone. */
export function ownAnswers(): KeptAnswers {
  const known = new Map<string, Kept>();
  return {
    acquire: async (question) => known.get(question) ?? NOTHING_KEPT,
    keep: async (question, kept) => void known.set(question, kept),
  };
}

const read = (compressed: Uint8Array): Kept => JSON.parse(inflateRawSync(compressed).toString()) as Kept;
