/** Reads the progress of EvaluateReplay on all shards, and finds the shards that are not completely evaluated. */

import type { ObjectFacts, Storage } from '../../../core/aws/storage.ts';
import { replayKeys } from '../../../core/contract/work-keys.ts';
import { addUsd } from '../../compare/pairwise.ts';
import { addFailed, type Judged, nothingJudged } from '../../compare/quality.ts';
import type { AssessedVerdicts } from '../../publish/write-assessments.ts';
import { type EvaluationProgress, newProgress, type PartKind } from '../evaluate/progress.ts';
import { EVALUATION_FILES } from '../work-bucket/keys.ts';
import type { StoredPlan } from '../work-bucket/stored-plan.ts';
import type { Collected } from './collect.ts';

/** A shard with a result, which is not completely judged or logged to MLflow. */
interface UnevaluatedShard {
  shard: number;
  failure?: { name: string; message: string };
}

export interface CollectedEvaluations {
  traces: number;
  refused: number;
  linked: boolean;
  assessments: AssessedVerdicts;
  judged: Judged;
  usd: number | null;
  unevaluated: UnevaluatedShard[];
  /** The objects with lines, in the order of the shards and of their batches. */
  parts: Record<PartKind, ObjectFacts[]>;
}

export const nothingEvaluated = (): CollectedEvaluations => ({
  traces: 0,
  refused: 0,
  linked: true,
  assessments: { written: 0, withoutTrace: 0 },
  judged: nothingJudged(),
  usd: 0,
  unevaluated: [],
  parts: { judged: [], worse: [], refused: [] },
});

/** Adds up the evaluations of all shards that have a result. */
export async function collectEvaluations(
  storage: Storage,
  bucket: string,
  plan: StoredPlan,
  { lost, notBegun }: Pick<Collected, 'lost' | 'notBegun'>,
): Promise<CollectedEvaluations> {
  const found = nothingEvaluated();
  if (!plan.judge && !plan.mlflow) return found;
  const objects = new Map<string, ObjectFacts>();
  for await (const object of storage.list(bucket, replayKeys.evaluationsPrefix(plan.run))) {
    objects.set(object.key, object);
  }
  const gone = new Set([...lost, ...notBegun].map(({ shard }) => shard));
  for (const { shard } of plan.shards) {
    if (gone.has(shard)) continue;
    const prefix = replayKeys.evaluationPrefix(plan.run, shard);
    const read = async <T>(name: string): Promise<T | undefined> =>
      objects.has(`${prefix}${name}`) ? storage.getJson<T>(bucket, `${prefix}${name}`) : undefined;
    const stored = await read<EvaluationProgress>(EVALUATION_FILES.progress);
    const progress = { ...newProgress(shard), ...stored };
    take(found, progress, (name) => objects.get(`${prefix}${name}`));
    if (progress.done) continue;
    const failure = await read<UnevaluatedShard['failure']>(EVALUATION_FILES.failure);
    found.unevaluated.push({ shard, ...(failure ? { failure } : {}) });
  }
  return found;
}

function take(
  found: CollectedEvaluations,
  { traces, pairs, assessments, parts }: EvaluationProgress,
  objectOf: (name: string) => ObjectFacts | undefined,
): void {
  found.traces += traces.written;
  found.refused += traces.refused;
  found.linked &&= traces.linked;
  found.assessments.written += assessments.written;
  found.assessments.withoutTrace += assessments.withoutTrace;
  const { errors = {}, ...counts } = pairs.judged;
  for (const [verdict, count] of Object.entries(counts)) found.judged[verdict as keyof typeof counts] += count;
  for (const [code, count] of Object.entries(errors)) addFailed(found.judged, code, count);
  found.usd = addUsd(found.usd, pairs.usd);
  for (const [kind, names] of Object.entries(parts)) {
    found.parts[kind as PartKind].push(...names.flatMap((name) => objectOf(name) ?? []));
  }
}
