/** SummarizeRun: the receipts of a run → summary.json, metrics, and whether the execution must fail. */
import { MetricUnit } from '@aws-lambda-powertools/metrics';
import { SFNClient } from '@aws-sdk/client-sfn';
import type { Context } from 'aws-lambda';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import type { TruthInput } from '../../src/core/contract/ground-truth.ts';
import type { RunMetric } from '../../src/core/contract/metric-names.ts';
import type { SummarizeRequest, SummarizeResult } from '../../src/core/contract/payloads.ts';
import { replayKeys, workKeys } from '../../src/core/contract/work-keys.ts';
import { causeOf, withinCause } from '../../src/core/errors/cause.ts';
import { createMetrics, logged, logger } from '../../src/core/process/logging.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { startForWaiting } from '../../src/ground-truth/start-waiting.ts';
import { scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { isCacheKnown, isCacheMissed } from '../../src/monitoring/cache-missed.ts';
import { readLabelsDaily } from '../../src/monitoring/read-labels.ts';
import { removeTexts } from '../../src/monitoring/remove-texts.ts';
import { describeFailure } from '../../src/monitoring/run-failure.ts';
import { summarizeRun } from '../../src/monitoring/summarize-run.ts';
import { goodVerdicts, type RunSummary } from '../../src/monitoring/summary.ts';
import { connectQuality } from '../../src/monitoring/watch-run.ts';
import { writePage } from '../../src/monitoring/write-page.ts';
import { sumOfCells } from '../../src/quality/counts-store.ts';
import { mergeHourly } from '../../src/quality/merge-ledger.ts';
import { measuresOf, objectivesOf } from '../../src/quality/objectives.ts';
import { outcomesIn } from '../../src/quality/outcomes.ts';
import { RunSums } from '../../src/quality/run-sums.ts';
import { startOnce } from '../start-once.ts';

const environment = readEnvironment();
const storage = new Storage(createS3Client());
const metrics = createMetrics(environment.STACK_PREFIX);
const scorers = scorersFor({ guidelines: environment.JUDGE_GUIDELINES, functions: environment.SCORER_FUNCTIONS });
const measures = measuresOf(objectivesOf(environment));
const watchRun = connectQuality(environment, storage);
const stepFunctions = new SFNClient({});

/** The page takes a few seconds. A run that is summarized in parts may have fewer left. */
const PAGE_MS = 60_000;
/** Some megabytes of the ledger are merged in less. */
const MERGE_MS = 90_000;
/** Longer than a request to MLflow is repeated. */
const LABELS_MS = 120_000;

const handle = async ({ run, error, part = 0 }: SummarizeRequest, context: Context): Promise<SummarizeResult> => {
  const bucket = environment.WORK_BUCKET;
  const work = { storage, workBucket: bucket };
  // The state machine starts with an empty error.
  const failure = !error?.Error ? undefined : { name: error.Error, message: causeOf(error.Cause) };
  const time = { part, remainingMs: () => context.getRemainingTimeInMillis() };
  const quality = new RunSums();
  const summary = await summarizeRun(work, run, failure, time, quality);
  const key = workKeys.summary(run.name);
  const result = { summary: { bucket, key }, more: summary.status === 'unfinished', part: part + 1 };
  if (result.more) return { ...result, ok: true, error: '', cause: '' };
  summary.good = goodVerdicts(summary.verdictsByScorer, scorers);
  const { first, variants } = quality;
  summary.counted = { first, variants };
  summary.outcomes = outcomesIn(sumOfCells(Object.values(variants).map((cell) => ({ cell }))), scorers);
  const text = JSON.stringify(summary, null, 2);
  await storage.putText(bucket, key, text);
  const { replay } = summary.options ?? {};
  if (environment.CONTENT === 'none') await removeTexts(work, run.name, replay?.run);
  if (replay !== undefined) {
    // The exchanges of a replay are no traffic.
    await storage.putText(bucket, replayKeys.verdicts(replay.run, run.name), text);
  } else {
    const changed = await watchRun(summary, quality);
    await startLabels(summary);
    // Publish last, because a retry after an earlier failure would count everything twice.
    publish(summary);
    if (context.getRemainingTimeInMillis() > PAGE_MS)
      await writePage(changed, { storage, sfn: stepFunctions, environment, functionArn: context.invokedFunctionArn });
  }
  await mergeHourly(work, {
    measures,
    nowMs: Date.now(),
    hasTime: () => context.getRemainingTimeInMillis() > MERGE_MS,
    skipped: (day, error) =>
      logger.warn('A day of the ledger was not merged. The error names the object', { day, error: error as Error }),
  }).catch((error: unknown) =>
    logger.warn('The ledger could not be merged. A later run merges it', { error: error as Error }),
  );
  await readLabelsDaily(work, {
    connect: async () => (await import('../../src/mlflow/connect.ts')).mlflowOf(environment, storage.s3),
    ...{ settings: environment, scorers },
    nowMs: Date.now(),
    hasTime: () => context.getRemainingTimeInMillis() > LABELS_MS,
  });
  const ok = summary.status !== 'failed';
  const { error: name, cause } = ok ? { error: '', cause: '' } : describeFailure(summary);
  if (!ok) logger.error('run failed', { summary } as never);
  return { ...result, ok, error: name, cause: withinCause(cause) };
};

export const handler = logged(environment.STACK_PREFIX, handle);

/** The labels that came before these captures have predictions now. */
async function startLabels({ run, lines }: RunSummary): Promise<void> {
  const {
    TRUTH_STATE_MACHINE_ARN: machine,
    TRUTH_WINDOW_SECONDS: windowSeconds,
    WORK_BUCKET: workBucket,
  } = environment;
  if (machine === undefined || lines.traced === 0) return;
  const start = (name: string, input: TruthInput) => startOnce(stepFunctions, machine, name, input);
  await startForWaiting(run, { storage, workBucket, windowSeconds, start });
}

function publish({ status, lines, verdicts, spend, judgeModelEnding }: RunSummary): void {
  const counts = {
    TracedLines: lines.traced,
    QuarantinedLines: lines.quarantined,
    LostLines: lines.lost,
    NewVerdicts: verdicts.newVerdicts,
    FailedVerdicts: verdicts.failed,
    HeldVerdicts: verdicts.heldByBudget,
    LostVerdicts: verdicts.lost,
    RunsFailed: status === 'failed' ? 1 : 0,
    JudgeModelEnding: judgeModelEnding ? 1 : 0,
  } satisfies Record<Exclude<RunMetric, 'JudgeCacheMissed' | 'JudgeUsd'>, number>;
  for (const [name, value] of Object.entries(counts)) metrics.addMetric(name, MetricUnit.Count, value);
  const missed = 'JudgeCacheMissed' satisfies RunMetric;
  if (isCacheKnown(spend)) metrics.addMetric(missed, MetricUnit.Count, isCacheMissed(spend) ? 1 : 0);
  if (spend.usd !== null) metrics.addMetric('JudgeUsd' satisfies RunMetric, MetricUnit.NoUnit, spend.usd);
  metrics.publishStoredMetrics();
}
