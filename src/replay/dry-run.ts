/** Computes the requests of a replay without sending them: their times, kinds and tokens. */
import type { ReplayOptions } from './options.ts';
import type { Keep } from './request/keep.ts';
import { type LiteralOrSkip, type LiteralRequest, literalRequest } from './request/literal.ts';
import { capturedReply, estimateInputTokens, estimateTextTokens, type PreparerOptions } from './request/preparer.ts';
import { type EntrySource, schedule } from './schedule/timing.ts';
import { unreadable } from './source/peek.ts';
import { localReader, type RangeReader } from './source/range-reader.ts';

/** Maximum number of steps in the chart of the load over time. */
const STEPS = 60;

const nothing = () => ({
  requests: 0,
  /** Seconds between the first and the last request; 0 without a schedule. */
  seconds: 0,
  /** Number of requests in the busiest second; 0 without a schedule. */
  peakPerSecond: 0,
  meanPerSecond: 0,
  /** Requests in each of at most 60 equal steps. */
  shape: [] as number[],
  streaming: 0,
  contentTypes: {} as Record<string, number>,
  bodyBytes: 0,
  /** `captured` was counted by the captured endpoint; the rest is estimated at four characters per token. */
  inputTokens: { total: 0, captured: 0 },
  outputTokens: { total: 0, captured: 0 },
});

export type DryRun = ReturnType<typeof nothing>;

interface DryRunJob extends Pick<PreparerOptions, 'files' | 'options' | 'onSkipped'> {
  index: EntrySource;
  /** Default: from the local disk. */
  reader?: RangeReader;
  /** Masks content types, because callers choose their parameters. */
  keep?: Keep | undefined;
  /** Called before each batch with the number of requests so far. If it throws, the dry run ends. */
  onBatch(requests: number): void;
}

/**
 * Counts the requests of a schedule. Closes the reader.
 *
 * @example
 *     const { requests, peakPerSecond } = await dryRun({ files, index, options, onSkipped, onBatch: () => {} });
 */
export async function dryRun(job: DryRunJob): Promise<DryRun> {
  const { files, options, keep, reader = localReader(files) } = job;
  const found = nothing();
  const perSecond = new SecondCounts();
  let skipped = 0;
  try {
    for (const batch of schedule(job.index, options, () => skipped)) {
      job.onBatch(found.requests);
      reader.expect(batch.map(({ entry }) => entry));
      for (const { entry, dueMs, pass } of batch) {
        const literal = counted(found, await reader.read(entry), options, keep);
        if (literal.kind === 'skipped') {
          skipped++;
          if (pass > 0) continue;
          const file = files[entry.file]?.name ?? '';
          job.onSkipped({ file, line: entry.line, reason: literal.reason, message: literal.message });
          continue;
        }
        found.requests++;
        if (!Number.isNaN(dueMs)) perSecond.add(dueMs);
      }
    }
  } finally {
    await reader.close();
  }
  found.seconds = perSecond.lastMs / 1000;
  found.peakPerSecond = perSecond.peak;
  found.meanPerSecond = found.seconds > 0 ? found.requests / found.seconds : 0;
  found.shape = Array.from(perSecond.steps, (count) => count ?? 0);
  return found;
}

/** A request that cannot be counted is skipped, as it would be in a replay. */
function counted(found: DryRun, line: Buffer, options: ReplayOptions, keep?: Keep): LiteralOrSkip {
  try {
    const literal = literalRequest(line, options);
    if (literal.kind === 'request') countRequest(found, literal.request, keep);
    return literal;
  } catch (error) {
    return unreadable(error);
  }
}

function countRequest(found: DryRun, request: LiteralRequest, keep?: Keep): void {
  const { prompt, body, contentType, streaming } = request;
  const reply = capturedReply(request);
  found.bodyBytes += body.length;
  if (streaming) found.streaming++;
  const type = keep?.id(contentType) ?? contentType;
  found.contentTypes[type] = (found.contentTypes[type] ?? 0) + 1;
  addTokens(found.inputTokens, reply?.usage?.inputTokens, estimateInputTokens(request) ?? 0);
  addTokens(found.outputTokens, reply?.usage?.outputTokens, prompt && reply ? estimateTextTokens(reply.text) : 0);
}

function addTokens(tokens: DryRun['inputTokens'], captured: number | undefined, estimate: number): void {
  tokens.captured += captured ?? 0;
  tokens.total += captured ?? estimate;
}

/** Counts requests by second, and by steps whose width doubles so that their number is bounded. */
class SecondCounts {
  /** A step without requests may be missing. */
  readonly steps: (number | undefined)[] = [];
  #stepMs = 1000;
  #second = -1;
  #inSecond = 0;
  peak = 0;
  lastMs = 0;

  add(dueMs: number): void {
    this.lastMs = Math.max(this.lastMs, dueMs);
    const second = Math.floor(dueMs / 1000);
    if (second !== this.#second) this.#inSecond = 0;
    this.#second = second;
    this.peak = Math.max(this.peak, ++this.#inSecond);
    const { steps } = this;
    while (dueMs / this.#stepMs >= STEPS) {
      for (let i = 0; i * 2 < steps.length; i++) steps[i] = (steps[2 * i] ?? 0) + (steps[2 * i + 1] ?? 0);
      steps.length = Math.ceil(steps.length / 2);
      this.#stepMs *= 2;
    }
    const step = Math.floor(dueMs / this.#stepMs);
    steps[step] = (steps[step] ?? 0) + 1;
  }
}
