/** Reads traces with their assessments and tags from MLflow, page by page. */
import { NOT_TRAFFIC_TAG, REPLAY_TAG } from '../../captures/trace/ids.ts';
import { fitted } from '../../captures/trace/text.ts';
import { checkNames } from '../../core/errors/nearest.ts';
import { type ExcludedWindow, firstMet } from '../../ledger/excluded.ts';
import { searchTraces } from '../../mlflow/existing-traces.ts';
import type { AssessmentReply, TraceInfoReply } from '../../mlflow/replies.ts';
import type { MlflowRest } from '../../mlflow/rest.ts';
import { REPLACED_AT, SAMPLE_METADATA } from '../../mlflow/types.ts';
import { ALWAYS, chanceOf, stratumOf } from '../sample.ts';

/** The part of the MLflow client that labels need: it repeats calls that failed for a while. */
export type Rest = Pick<MlflowRest, 'repeat'>;

export type ReadAssessment = AssessmentReply;
export type AssessedTrace = TraceInfoReply;

export interface TraceQuery {
  experimentId: string;
  /** MLflow's own filter, for example `tag.sagemaker_variant_name = 'AllTraffic'`. */
  filter?: string | undefined;
  /** Only inferences from this instant on, epoch milliseconds. */
  fromMs?: number | undefined;
  /** Only inferences before this instant. */
  toMs?: number | undefined;
  /** Default: the oldest first. */
  newestFirst?: boolean | undefined;
  /** Shadow variants, whose traces are left out unless the filter names them. */
  shadow?: readonly string[] | undefined;
  /** Reads the windows whose traces are left out. */
  excluded?: (() => Promise<readonly ExcludedWindow[]>) | undefined;
  progress?: ((traces: number) => void) | undefined;
}

export interface VerdictQuery extends TraceQuery {
  /** Only these scorers. Default: all scorers that both a person and a judge have assessed. */
  only?: readonly string[] | undefined;
  /** Only verdicts of this judge, for example `bedrock:/…`. */
  judge?: string | undefined;
}

const VARIANT_TAG = 'sagemaker_variant_name';
/** Tags that only some captures have, so that a window may lack them. */
const SOMETIMES = ['status_code', 'empty_reply', 'inference_id', 'inference_mismatch', 'replay_run', 'capture_notes'];

/** Returns the shadow variants whose traces a query leaves out, because its filter does not name them. */
export const shadowLeftOut = ({ shadow = [], filter = '' }: Pick<TraceQuery, 'shadow' | 'filter'>) =>
  filter.includes(VARIANT_TAG) ? shadow.filter((name) => !filter.includes(name)) : shadow;

/**
 * Reads all matching traces of the experiment in the order of their inference, without requests of replays.
 *
 * @throws PermanentError `UnknownName` for a tag or a variant in the filter
 */
export async function* assessedTraces(rest: Rest, query: TraceQuery): AsyncGenerator<AssessedTrace> {
  const { experimentId, fromMs, toMs, progress } = query;
  const filter = [
    ...(fromMs === undefined ? [] : [`timestamp_ms >= ${fromMs}`]),
    ...(toMs === undefined ? [] : [`timestamp_ms < ${toMs}`]),
    ...(query.filter ? [query.filter] : []),
  ].join(' AND ');
  const leftOut = shadowLeftOut(query);
  const excluded = (await query.excluded?.()) ?? [];
  let traces = 0;
  const order = { order_by: [`timestamp_ms ${query.newestFirst ? 'DESC' : 'ASC'}`] };
  for await (const page of searchTraces(rest, experimentId, { filter: filter || undefined, ...order })) {
    yield* page.filter(({ request_time: time, tags }) => {
      const [variant, inferenceId] = [tags[VARIANT_TAG], fitted(tags.inference_id ?? '')];
      const isLeftOut = firstMet(excluded, { timeMs: Date.parse(time), variant, inferenceId }) !== undefined;
      return !isLeftOut && !leftOut.includes(variant ?? '') && !(REPLAY_TAG in tags);
    });
    traces += page.length;
    progress?.(traces);
  }
  if (traces === 0) await checkFilter(rest, query);
}

/** Refuses a filter that finds no trace if it names a tag or a variant that no trace of the window has. @throws PermanentError `UnknownName` */
async function checkFilter(rest: Rest, { filter = '', ...query }: TraceQuery): Promise<void> {
  const named = (pattern: RegExp) => Array.from(filter.matchAll(pattern), ([, name = '']) => name);
  const tags = named(/\btags?\.[`"]?([\w.-]+)/gi);
  if (tags.length === 0) return;
  const variants = new Set<string>();
  const known = new Set([...SOMETIMES, NOT_TRAFFIC_TAG]);
  for await (const trace of assessedTraces(rest, { ...query, shadow: [] })) {
    variants.add(trace.tags[VARIANT_TAG] ?? '');
    for (const name of Object.keys(trace.tags)) known.add(name);
  }
  if (variants.size === 0) return;
  checkNames('tag', tags, [...known]);
  checkNames('variant', named(/sagemaker_variant_name\W?\s*=\s*'([^']*)/gi), [...variants]);
}

/** Returns when an assessment was last changed, epoch milliseconds; 0 if MLflow does not return the time. */
export const timeOf = ({ last_update_time, create_time }: ReadAssessment): number =>
  Date.parse(last_update_time || create_time) || 0;
const newest = (list: readonly ReadAssessment[]): ReadAssessment | undefined =>
  list.toSorted((a, b) => timeOf(b) - timeOf(a))[0];

export const givenBy = ({ feedback, expectation }: Pick<ReadAssessment, 'feedback' | 'expectation'>): unknown =>
  feedback?.value ?? expectation?.value;

/** A judge's verdict counts even if a person overrode it, because that is how people correct it. */
const isVerdict = ({ source, feedback }: ReadAssessment): boolean =>
  (source.source_type === 'LLM_JUDGE' || source.source_type === 'CODE') &&
  feedback?.value !== undefined &&
  feedback.value !== null &&
  feedback.error === undefined;

/** Returns the latest verdict. @param judge only of this judge, for example `bedrock:/…` */
export const latestVerdict = (assessments: readonly ReadAssessment[], judge?: string): ReadAssessment | undefined =>
  newest(assessments.filter((a) => isVerdict(a) && (judge === undefined || a.source.source_id === judge)));

/** Returns the latest assessment of each person, which replaces the earlier ones. */
export function latestByPerson(assessments: readonly ReadAssessment[]): ReadAssessment[] {
  const given = assessments.filter(
    (a) => a.source.source_type === 'HUMAN' && a.valid && givenBy(a) !== undefined && givenBy(a) !== null,
  );
  return [...Map.groupBy(given, ({ source }) => source.source_id).values()].flatMap((own) => newest(own) ?? []);
}

/** Returns when a scorer had its first verdict on a trace, epoch milliseconds. @param own the assessments of the scorer */
export const firstVerdictMs = (own: readonly ReadAssessment[]): number =>
  own
    .filter(isVerdict)
    .map(({ metadata, create_time }) => Date.parse(metadata[REPLACED_AT] ?? create_time) || 0)
    .reduce((first, ms) => Math.min(first, ms), Infinity);

/** Counts verdicts by stratum, to know how many captures each judged capture represents. */
export class JudgedStrata {
  readonly #chances = new Map<string, number>();

  /**
   * Adds a verdict. A stratum is a random sample even if it grew: if a later run has judged more captures of an hour,
   * the later chance applies to all of them.
   *
   * @returns a function that returns 1 ÷ the chance to be judged; call it after all verdicts are added
   */
  add({ request_time: time, tags }: AssessedTrace, scorer: string, { metadata }: ReadAssessment): () => number {
    const sample = metadata[SAMPLE_METADATA] ?? '';
    if (sample === ALWAYS) return () => 1;
    const stratum = stratumOf(metadata) ?? '';
    const key = JSON.stringify([scorer, time.slice(0, 'yyyy-mm-ddThh'.length), tags.sagemaker_variant_name, stratum]);
    this.#chances.set(key, Math.max(this.#chances.get(key) ?? 0, chanceOf(sample)));
    return () => 1 / (this.#chances.get(key) || 1);
  }
}
