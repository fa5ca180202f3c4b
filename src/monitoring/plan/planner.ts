/**
 * Plans a run: turns the input of an execution into byte ranges of capture lines, as a manifest in the work bucket.
 *
 * A run is planned in parts. A part is as much as one Lambda can plan in its time; the state machine runs the chunks of a
 * part, then plans the next one.
 */

import { Readable } from 'node:stream';
import { putStream } from '../../core/aws/uploads.ts';
import { assertContract } from '../../core/contract/contract.ts';
import type { RunOptions } from '../../core/contract/input.ts';
import { EVENT_RUN_PREFIX } from '../../core/contract/names.ts';
import type { PlanRequest, PlanResult } from '../../core/contract/payloads.ts';
import type { NamedError, PlanReceipt } from '../../core/contract/receipts.ts';
import { areaOf, workKeys } from '../../core/contract/work-keys.ts';
import { PermanentError, toNamedError } from '../../core/errors/errors.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { uncachedWarning } from '../../judge/active-scorers.ts';
import { assertBatchPossible, firstModel } from '../../judge/judge-id.ts';
import { assertListPrice, assertModelLives, type ModelCheck } from '../../judge/model-check.ts';
import { assertJudgeAffordable } from '../../judge/pricing/estimate.ts';
import { propertiesIn } from '../../judge/pricing/prices.ts';
import { mayJudge } from '../../judge/scorers/always-rules.ts';
import { readManifest } from '../receipts.ts';
import { type ParsedInput, parseInput, runOptions } from './input.ts';
import { PartPlan } from './part-plan.ts';
import { PartUnits } from './part-units.ts';
import { optionsOfRun } from './retry-source.ts';
import type { PlannerDependencies } from './types.ts';

/** Objects of an earlier execution with the same name are older than this. Clocks differ by less. */
const NAME_MARGIN_MS = 3_600_000;

/**
 * @throws PermanentError by name for input that cannot be planned; RetryableError when S3 or MLflow is unavailable
 *
 * @example
 *     const { outcome, more } = await planCaptures(request, deps);   // more: plan the next part
 */
export async function planCaptures(request: PlanRequest, deps: PlannerDependencies): Promise<PlanResult> {
  const parsed = parseInput(request.input);
  const warnings: string[] = [];
  const given = await optionsFor(parsed, deps, warnings);
  assertOptions(request, given);
  const previous = await previousPart(request, deps);
  // The first part has decided for all captures of the run.
  const isAskedOnline = given.evaluate && !given.dryRun && given.replay === undefined;
  const { chance, functions } = previous?.options ?? {
    // The run keeps the versions of the functions of scorers.
    functions: isAskedOnline ? await deps.functionVersions?.() : undefined,
  };
  const options = { ...given, ...(chance !== undefined && { chance }), ...(functions && { functions }) };
  // The starter's names contain a time and a digest, so they are never reused.
  if (request.part === 0 && !request.run.name.startsWith(EVENT_RUN_PREFIX)) await assertNameUnused(request, deps);
  const { environment } = deps;
  const asked = firstModel(environment);
  if (options.judge === 'batch' && options.evaluate && !options.dryRun)
    assertBatchPossible(asked, propertiesIn(asked, environment.JUDGE_PRICES));
  const mayAsk = options.evaluate && mayJudge(options.sampleRate, environment.EVALUATION_ALWAYS);
  const isAsked = mayAsk && request.part === 0;
  const check = isAsked ? await deps.checkJudgeModel() : undefined;
  const warning = isAsked ? uncachedWarning(environment, options) : undefined;
  for (const message of [check?.message, warning]) if (message !== undefined) warnings.push(message);
  // A dry run does not ask the judge. It reports the failure that a run would have.
  const judgeError = isAsked && !options.dryRun ? judgeErrorOf(options, check, environment) : undefined;
  const notices = { warnings, ...(check && { judgeModelEnding: true as const }), ...(judgeError && { judgeError }) };
  const plan = new PartPlan(new PartUnits(parsed, request, deps, options), notices);
  if (options.dryRun) return plan.estimate();
  const planned = await plan.write();
  if (options.evaluate && options.judge === 'batch') await writeBatchManifest(request.run.name, deps);
  return planned;
}

/** Writes the manifest of all parts so far, by which the captures are traced even if the batch jobs fail. */
async function writeBatchManifest(run: string, { storage, environment }: PlannerDependencies): Promise<void> {
  const { WORK_BUCKET: workBucket } = environment;
  async function* lines(): AsyncGenerator<string> {
    for await (const line of readManifest({ storage, workBucket }, run)) yield `${JSON.stringify(line)}\n`;
  }
  await putStream(storage, workBucket, workKeys.batchManifest(run), Readable.from(lines()), 'application/jsonlines');
}

/** Returns why the judge can give no verdict. Its traces are written nevertheless, and then the run fails by this error. */
function judgeErrorOf(
  options: RunOptions,
  check: ModelCheck | undefined,
  environment: LambdaEnvironment,
): NamedError | undefined {
  try {
    assertJudgeAffordable(environment, options);
    assertModelLives(check);
    if (environment.EVALUATION_BUDGET_USD || options.budgetUsd) assertListPrice(check, environment.JUDGE_PRICES);
  } catch (error) {
    if (error instanceof PermanentError) return toNamedError(error);
    throw error;
  }
  return undefined;
}

/** Returns the options of the run. A retry keeps the options of the earlier run that its input does not set. */
async function optionsFor(parsed: ParsedInput, deps: PlannerDependencies, warnings: string[]): Promise<RunOptions> {
  const redactKey = await deps.pseudonymKey?.();
  const { EVALUATION_SAMPLE_RATE: sampleRate } = deps.environment;
  const options = { ...runOptions(parsed.input, { sampleRate }), redactKey };
  if (parsed.kind !== 'retry') return options;
  const { retry } = parsed.input;
  const work = { storage: deps.storage, workBucket: deps.environment.WORK_BUCKET };
  const { budgetUsd, continues = [], functions: _, ...original } = await optionsOfRun(work, retry);
  const given = Object.fromEntries(
    Object.entries(parsed.input).filter(([name, value]) => name !== 'retry' && value !== undefined),
  ) as Partial<RunOptions>;
  // The same budget would hold back the same verdicts again.
  const isNewBudget = retry.what === 'held' && budgetUsd !== undefined;
  if (isNewBudget && given.budgetUsd === undefined) {
    warnings.push(
      `The retry does not take over the budget of ${retry.run}, ${budgetUsd} dollars: the daily budget applies, and "budgetUsd" if the retry sets it`,
    );
  }
  // A new re-evaluation judges everything again.
  const isNewChain = given.reevaluate === true && !original.reevaluate;
  return {
    ...{ redactKey, ...original },
    dryRun: false,
    ...(isNewBudget || budgetUsd === undefined ? {} : { budgetUsd }),
    ...(isNewChain ? {} : { continues: [...continues, retry.run] }),
    ...given,
  };
}

/** Returns the receipt of the previous part. Checks the version that wrote it, because the cursor comes from it. */
async function previousPart({ run, part }: PlanRequest, { storage, environment }: PlannerDependencies) {
  const key = workKeys.plan(run.name, part - 1);
  const previous = part > 0 ? await storage.getJson<PlanReceipt>(environment.WORK_BUCKET, key) : undefined;
  if (previous !== undefined) assertContract(previous, `s3://${environment.WORK_BUCKET}/${key}`);
  return previous;
}

/** The characters that Bedrock accepts in the S3 addresses of a batch job, which contain the name of the run. */
const BATCH_NAME = /^[-!_*'().a-zA-Z0-9]+$/;

/** @throws PermanentError `InvalidInput`, `RunNameNotForBatch`: Step Functions also accepts names with `=`, `+`, `@` and other letters */
function assertOptions({ run: { name }, input }: PlanRequest, { evaluate, judge, dryRun, replay }: RunOptions): void {
  if (replay !== undefined && (dryRun || judge === 'batch')) {
    const facts = { got: input, expected: 'neither "dryRun" nor "judge": "batch"' };
    throw new PermanentError('InvalidInput', 'A run over a replay has no dry run, and no batch inference', facts);
  }
  if (judge !== 'batch' || !evaluate || dryRun || BATCH_NAME.test(name)) return;
  const expected = `a name of the letters a to z, digits and -!_*'().; or "judge": "converse"`;
  const message = 'Bedrock’s batch inference does not accept the execution’s name';
  throw new PermanentError('RunNameNotForBatch', message, { got: name, expected });
}

/** Names are free again after 90 days, while quarantined lines of the earlier execution are still there. */
async function assertNameUnused({ run }: PlanRequest, { storage, environment }: PlannerDependencies): Promise<void> {
  const bucket = environment.WORK_BUCKET;
  for (const prefix of [workKeys.runPrefix(run.name), areaOf('quarantine', run.name)]) {
    for await (const { key, lastModifiedMs } of storage.list(bucket, prefix)) {
      if (lastModifiedMs >= Date.parse(run.startTime) - NAME_MARGIN_MS) continue;
      const [expected, where] = ['an execution name without quarantined lines', `s3://${bucket}/${key}`];
      const message = 'The work bucket contains objects of an earlier execution of that name';
      throw new PermanentError('RunNameTaken', message, { got: run.name, expected, where });
    }
  }
}
