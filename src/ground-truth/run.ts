/**
 * A ground truth run: does its steps in order, within the time of one invocation. The state machine invokes again until
 * all steps are done.
 *
 * A failed invocation is repeated with the same state, and each step can be repeated. The results of an invocation are
 * in its own object, and the counts come from the files' reports at the end. So nothing counts twice.
 */

import { MetricUnit } from '@aws-lambda-powertools/metrics';
import { assertContract } from '../core/contract/contract.ts';
import {
  type LabelFileReport,
  TRUTH_STEPS,
  type TruthInput,
  type TruthRequest,
  type TruthResult,
  type TruthRunSummary,
  type TruthState,
  truthInputSchema,
} from '../core/contract/ground-truth.ts';
import { objectInputSchema } from '../core/contract/input.ts';
import type { LabelMetric } from '../core/contract/metric-names.ts';
import { areaOf, truthKeys } from '../core/contract/work-keys.ts';
import { PermanentError } from '../core/errors/errors.ts';
import { inOrder } from '../core/process/concurrency.ts';
import { createMetrics } from '../core/process/logging.ts';
import { addCounts, noCounts } from '../core/values/counts.ts';
import type { Lock } from '../limits/lock.ts';
import {
  labelCounts,
  type PublishResult,
  type ReadResult,
  STEP_RESERVE_MS,
  type StepDependencies,
  type StepResult,
} from './types.ts';

/** The steps that do the work. The last step of a run, `sum`, is of this file. */
export interface TruthSteps {
  read(input: TruthInput, cursor: string | null, deps: StepDependencies): Promise<ReadResult>;
  join(cursor: string | null, deps: StepDependencies): Promise<StepResult>;
  measure(cursor: string | null, deps: StepDependencies): Promise<StepResult>;
  note(cursor: string | null, deps: StepDependencies): Promise<PublishResult>;
}

interface TruthRunDependencies extends StepDependencies {
  steps: TruthSteps;
  /** Its owner is the run. Absent without a table, as in a test. */
  lock?: Pick<Lock, 'acquire' | 'release'> | undefined;
}

/** The results of one invocation. */
type InvocationReport = Pick<TruthRunSummary, 'files' | 'noted' | 'notNoted' | 'notedBy'>;

/** A step is begun with at least this much time, of which it uses all but the reserve. */
const LEAST_MS = 2 * STEP_RESERVE_MS;
/** Only one run publishes labels at a time, because MLflow cannot write an assessment only if it is absent. */
const PUBLISHING = 'lock#ground-truth-notes';
/** Objects that are read at the same time. */
const READS_AT_ONCE = 16;

type Place = Pick<TruthState, 'step' | 'cursor'>;

/**
 * @throws PermanentError `ContractChanged`, `InvalidInput`; the errors of the steps
 *
 * @example
 *     const { more, state } = await runGroundTruth(request, deps);   // more: invoke it again with this state
 */
export async function runGroundTruth(request: TruthRequest, deps: TruthRunDependencies): Promise<TruthResult> {
  assertContract(request, `the execution ${request.run.name}`);
  const input = parseTruthInput(request.input);
  const { state } = request;
  const waitSeconds = secondsUntil(input);
  if (waitSeconds > 0) return { more: true, waitSeconds, state };
  const report: InvocationReport = { files: [], noted: 0, notNoted: noCounts() };
  let place: Place = state;
  do {
    if (place.step === 'sum') break;
    place = await doStep(place, input, report, deps);
    // Publishing ends the invocation, so that its results are stored before the next one and survive if that function
    // is killed.
  } while (deps.remainingMs() > LEAST_MS && !(place.step === 'note' && place.cursor !== null));
  const { workBucket: bucket } = deps;
  await deps.storage.putJson(bucket, truthKeys.invocation(deps.run.name, state.part), report);
  const result = { waitSeconds: 0, state: { ...place, part: state.part + 1 } };
  if (place.step !== 'sum' || deps.remainingMs() < STEP_RESERVE_MS) return { ...result, more: true };
  const key = truthKeys.summary(deps.run.name);
  const { summary, unusable } = await sumUp(state.part, deps);
  await deps.storage.putText(bucket, key, JSON.stringify(summary, null, 2));
  // Publish last, because a retry after an earlier failure would count everything twice.
  publishLabelCounts(deps.environment.STACK_PREFIX, summary, unusable);
  return { ...result, more: false, summary: { bucket, key } };
}

/** A run for labels that wait begins when the captures of its time have been processed. */
const secondsUntil = (input: TruthInput): number =>
  'notBefore' in input && input.notBefore !== undefined
    ? Math.ceil((Date.parse(input.notBefore) - Date.now()) / 1000)
    : 0;

async function doStep(
  { step, cursor }: Place,
  input: TruthInput,
  report: InvocationReport,
  deps: TruthRunDependencies,
): Promise<Place> {
  const { steps } = deps;
  const next = TRUTH_STEPS[TRUTH_STEPS.indexOf(step) + 1] ?? 'sum';
  const after = ({ cursor: left }: StepResult): Place => ({ step: left === null ? next : step, cursor: left });
  if (step === 'read') {
    const read = await steps.read(input, cursor, deps);
    report.files.push(...read.files);
    return after(read);
  }
  if (step === 'join' || step === 'measure') return after(await steps[step](cursor, deps));
  const { other } = (await deps.lock?.acquire(PUBLISHING, deps.remainingMs())) ?? {};
  if (other !== undefined) {
    report.notedBy = other.owner;
    return after({ cursor: null });
  }
  // A lock that cannot be given back ends by itself.
  const release = () => deps.lock?.release(PUBLISHING).catch(() => undefined);
  const done = await steps.note(cursor, deps).finally(release);
  report.noted += done.noted;
  addCounts(report.notNoted, done.notNoted);
  // Another run marks its hours, then leaves its labels to the run that has the lock.
  const hasMore = () => deps.storage.hasAny(deps.workBucket, areaOf('truthOpen'));
  return done.cursor === null && (await hasMore()) ? { step, cursor: null } : after(done);
}

/** Returns the summary of a run from its invocations and the reports of its files. */
async function sumUp(last: number, { storage, workBucket: bucket, run }: TruthRunDependencies) {
  const invocations = inOrder(READS_AT_ONCE, Array(last + 1).keys(), (invocation) =>
    storage.getJson<InvocationReport>(bucket, truthKeys.invocation(run.name, invocation)),
  );
  const summary: TruthRunSummary = { run: run.name, counts: labelCounts(), files: [], noted: 0, notNoted: noCounts() };
  for await (const report of invocations) {
    summary.files.push(...(report?.files ?? []));
    summary.noted += report?.noted ?? 0;
    addCounts(summary.notNoted, report?.notNoted ?? {});
    if (report?.notedBy !== undefined) summary.notedBy = report.notedBy;
  }
  summary.files = [...new Set(summary.files)];
  let unusable = 0;
  const reports = inOrder(READS_AT_ONCE, summary.files, (key) => storage.getJson<LabelFileReport>(bucket, key));
  for await (const report of reports) {
    addCounts(summary.counts, report?.counts ?? {});
    if (report?.error !== undefined) unusable += 1;
  }
  return { summary, unusable };
}

const ALLOWED =
  '{"bucket":…,"key":…}, a label file; {"bucket":…,"prefix":…}, all label files under it; {"files":{"key":"starts/…"}}; ' +
  'the event "Object Created" of a label file; or {}, for labels that wait';

/** @throws PermanentError `InvalidInput`, with the input and the allowed shapes */
function parseTruthInput(raw: unknown): TruthInput {
  const event = objectInputSchema.safeParse(raw);
  if (event.success) {
    const { bucket, object } = event.data.detail;
    return { bucket: bucket.name, key: object.key };
  }
  const input = truthInputSchema.safeParse(raw);
  if (input.success) return input.data;
  const facts = { got: raw, expected: ALLOWED };
  throw new PermanentError('InvalidInput', 'The input of the execution is no label files', facts);
}

/**
 * Publishes the outcomes of the labels of a run's files. A run without files publishes nothing.
 *
 * @param unusable number of files without any usable line
 */
function publishLabelCounts(stackPrefix: string, { counts, files }: TruthRunSummary, unusable: number): void {
  if (files.length === 0) return;
  const values: Record<LabelMetric, number> = {
    LabelsRead: counts.lines,
    LabelsJoined: counts.joined + counts.repeated + counts.replaced + counts.outdated,
    LabelsInvalid: counts.invalid + counts.ambiguous + unusable,
  };
  const metrics = createMetrics(stackPrefix);
  for (const [name, value] of Object.entries(values)) metrics.addMetric(name, MetricUnit.Count, value);
  metrics.publishStoredMetrics();
}
