/** Runs the chunks of a run over the same captures, with everything in memory. */

import type { ChunkRequest } from '../../src/core/contract/payloads.ts';
import type { QualityCell, QualityCounts } from '../../src/core/contract/quality.ts';
import type { EvaluateReceipt, LogReceipt } from '../../src/core/contract/receipts.ts';
import { NO_LOG_COUNTS } from '../../src/core/contract/receipts.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { addCounts } from '../../src/core/values/counts.ts';
import { CallFailure } from '../../src/judge/errors.ts';
import { isJudgeScorer, scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { filesOfRun, OUTCOMES, type Outcome } from '../../src/ledger/what-became.ts';
import { evaluateChunk, logChunk } from '../../src/monitoring/evaluate/evaluate-chunk.ts';
import type { EvaluateDependencies } from '../../src/monitoring/evaluate/types.ts';
import { foldRows } from '../../src/quality/fold.ts';
import { observerOf } from '../../src/quality/observations.ts';
import { MemoryStorage } from '../doubles/memory-storage.ts';
import { memoryLimits, memoryWriting } from '../doubles/memory-table.ts';
import { MemoryTraces } from '../doubles/memory-traces.ts';
import { scriptedJudge, told } from '../doubles/scripted-judge.ts';
import { chunkOf, rangeOf } from './chunk-request.ts';
import { chatLine } from './deployed-captures.ts';
import { ledgerRows } from './ledger-rows.ts';
import { testEnvironment } from './test-environment.ts';

export const LLM = scorersFor().filter(isJudgeScorer).slice(0, 1);
export const CODE = scorersFor().filter(({ name }) => name === 'cut_off' || name === 'response_words');
export const [{ name: JUDGED } = { name: '' }] = LLM;
export const LINES = Array.from({ length: 8 }, (_, n) => chatLine(`line ${n}`));
export const HOUR = '2026-11-20T10';

/** Chunks that are evaluated in memory, by a judge that answers what it is told. */
export class ChunkRig {
  readonly storage = new MemoryStorage();
  readonly store = new MemoryTraces();
  /** What the judge answers. */
  value = 'yes';
  isAway = false;
  /** What all runs have counted together. */
  cell: QualityCell = {};
  #requests = 0;

  readonly writing = memoryWriting();

  request(run: string, options: Partial<ChunkRequest['options']> = {}, attempt = 0, lines = LINES): ChunkRequest {
    const range = rangeOf(this.storage, `e/Blue/2026/11/20/10/a.jsonl`, lines);
    const all = { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' as const };
    return { run, chunk: chunkOf([range]), options: { ...all, ...options }, attempt };
  }

  #deps(): EvaluateDependencies {
    this.#requests += 1;
    const { judge } = scriptedJudge(() => {
      if (this.isAway) throw new CallFailure('unavailable', 'away');
      return told(JSON.stringify({ [JUDGED]: { value: this.value, rationale: 'because' } }));
    });
    const parts = { storage: this.storage.storage, store: this.store, judge, scorers: [...LLM, ...CODE] };
    const rest = { environment: testEnvironment(), always: () => undefined };
    return { ...parts, ...rest, ...this.writing, requestId: `r${this.#requests}`, answers: memoryLimits() };
  }

  /** An attempt that is killed after it has written everything, and before its receipt. */
  async killed(request: ChunkRequest, more: Partial<EvaluateDependencies> = {}): Promise<void> {
    const put = this.storage.putJson;
    this.storage.putJson = async (bucket, key, value) => {
      if (key.includes('/receipts/')) throw new Error('killed');
      await put.call(this.storage, bucket, key, value);
    };
    await expect(evaluateChunk(request, { ...this.#deps(), ...more })).rejects.toThrow('killed');
    Reflect.deleteProperty(this.storage, 'putJson');
  }

  /** @returns what the run counts */
  async evaluate(request: ChunkRequest, more: Partial<EvaluateDependencies> = {}): Promise<QualityCell> {
    const deps = { ...this.#deps(), ...more };
    const receipt = await evaluateChunk(request, deps);
    await this.#accounted(request, receipt.log);
    return this.#counted(request, deps, receipt);
  }

  /** @returns what the receipt of an attempt that fails counts */
  async failed(request: ChunkRequest, more: Partial<EvaluateDependencies> = {}): Promise<QualityCell> {
    const deps = { ...this.#deps(), ...more };
    await expect(evaluateChunk(request, deps)).rejects.toThrow();
    const key = workKeys.receipt(request.run, 0, 'evaluate', request.attempt, `r${this.#requests}`);
    return this.#counted(request, deps, await this.storage.getJson<EvaluateReceipt>('', key));
  }

  async log(request: ChunkRequest, more: Partial<EvaluateDependencies> = {}): Promise<QualityCell> {
    const deps = { ...this.#deps(), ...more };
    const receipt = await logChunk(request, deps);
    await this.#accounted(request, receipt);
    return this.#counted(request, deps, receipt);
  }

  /** The first equation of a receipt is that of the rows of its files. */
  async #accounted({ run, chunk }: ChunkRequest, { counts, quarantineReasons }: LogReceipt): Promise<void> {
    const known = await filesOfRun({ storage: this.storage.storage, workBucket: 'work' }, { run });
    const [terms, reasons] = [{ ...NO_LOG_COUNTS }, {}];
    for (const place of new Set(chunk.ranges.map(({ bucket, key }) => `${bucket}/${key}`))) {
      const file = known.get(place);
      addCounts(reasons, file?.reasons ?? {});
      for (const [outcome, lines] of Object.entries(file?.outcomes ?? {})) {
        for (const term of OUTCOMES[outcome as Outcome].terms) terms[term] += lines;
      }
    }
    expect([terms, reasons]).toEqual([counts, quarantineReasons]);
  }

  /** Returns the counts of a receipt, which those of the rows of its chunk equal. */
  async #counted(
    { run, chunk }: ChunkRequest,
    { environment, scorers }: EvaluateDependencies,
    { quality = {} }: { quality?: QualityCounts } = {},
  ): Promise<QualityCell> {
    const measures = observerOf(environment, scorers)?.measures ?? [];
    const rows = await ledgerRows(this.storage.storage, 'work');
    const isOwn = (row: { run?: string; chunk?: number }) => row.run === run && row.chunk === chunk.chunk;
    const own = { ...rows, captures: rows.captures.filter(isOwn), verdicts: rows.verdicts.filter(isOwn) };
    const ofRun = foldRows(own, { measures, ofRun: true });
    const ofAll = foldRows(rows, { measures });
    expect(ofRun).toEqual(quality);
    this.cell = ofAll[HOUR]?.Blue ?? {};
    return quality[HOUR]?.Blue ?? {};
  }
}
