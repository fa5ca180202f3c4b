/** MLflow in memory: traces with their assessments. The test decides which writes fail. */

import { RUN_TAG } from '../../src/captures/trace/ids.ts';
import type { TraceRecord } from '../../src/captures/trace/types.ts';
import type { TraceStore } from '../../src/mlflow/client.ts';
import type {
  Experiment,
  NewAssessment,
  StoredAssessment,
  StoredTrace,
  WriteTracesResult,
} from '../../src/mlflow/types.ts';

type Store = Pick<
  TraceStore,
  'getExperiment' | 'getTraces' | 'writeTraces' | 'mendTraces' | 'writeAssessments' | 'spansForm'
>;

export class MemoryTraces implements Store {
  /** By trace. A trace that is not in here is absent, unless `hasAll`. */
  readonly assessments = new Map<string, (NewAssessment & { overrides?: string })[]>();
  /** The runs that have written traces. */
  readonly runs = new Map<string, string | undefined>();
  /** Traces that were written, in order. */
  readonly posts: string[] = [];
  /** Requests for single assessments. */
  singles = 0;
  /** Every trace that is asked for exists. */
  hasAll: boolean;
  /** Called before every write; throws for one that fails. */
  fault: (assessments: readonly NewAssessment[]) => void = () => {};
  /** Awaited between a look at what exists and the write that follows from it: others may write meanwhile. */
  between: () => Promise<void> = async () => {};
  /** Traces that MLflow refuses, and traces whose assessments it refuses. */
  readonly refuses = new Set<string>();
  readonly refusesAssessmentsOf = new Set<string>();

  constructor({ hasAll = false } = {}) {
    this.hasAll = hasAll;
  }

  getExperiment = async (id: string): Promise<Experiment> => ({
    id,
    name: 'name',
    artifactLocation: 'mlflow-artifacts:/1',
  });

  getTraces = async (_: string, ids: readonly string[]) =>
    new Map(
      ids.flatMap((traceId): [string, StoredTrace][] => {
        if (this.hasAll && !this.assessments.has(traceId)) this.assessments.set(traceId, []);
        const known = this.assessments.get(traceId);
        if (known === undefined) return [];
        const assessments = known.map(
          ({ error, ...one }): StoredAssessment => ({
            ...one,
            valid: !known.some(({ overrides }) => overrides === one.assessmentId),
            ...(error ? { errorCode: error.code } : {}),
          }),
        );
        const info = { experimentId: '', tagKeys: [], run: this.runs.get(traceId) };
        return [[traceId, { traceId, state: 'OK', assessments, ...(this.runs.has(traceId) ? { info } : {}) }]];
      }),
    );

  writeTraces = async (
    _: Experiment,
    traces: readonly TraceRecord[],
    assessmentsOf?: ReadonlyMap<string, readonly NewAssessment[]>,
  ): Promise<WriteTracesResult> => {
    const result: WriteTracesResult = { written: [], alreadyThere: [], bare: [], refused: [] };
    for (const { traceId, tags } of traces) {
      const given = assessmentsOf?.get(traceId) ?? [];
      this.fault(given);
      if (this.refuses.has(traceId)) {
        result.refused.push({ traceId, reason: { name: 'MlflowRefused', message: 'no' } });
      } else if (this.assessments.has(traceId)) {
        result.alreadyThere.push(traceId);
      } else {
        const isBare = this.refusesAssessmentsOf.has(traceId);
        await this.between();
        this.posts.push(traceId);
        this.runs.set(traceId, tags[RUN_TAG]);
        this.assessments.set(traceId, isBare ? [] : [...given]);
        result.written.push(traceId);
        if (isBare) result.bare.push(traceId);
      }
    }
    return result;
  };

  mendTraces = async () => [];

  spansForm = async () => 'otlp' as const;

  writeAssessments = async ({ traceId }: StoredTrace, assessments: readonly NewAssessment[]) => {
    this.fault(assessments);
    const known = this.assessments.get(traceId);
    if (known === undefined) return { written: [], alreadyThere: [], traceMissing: true as const };
    this.singles += 1;
    const news = assessments.filter((one) => !known.some((old) => old.assessmentId === one.assessmentId && !old.error));
    const before = [...known];
    await this.between();
    for (const given of news) {
      const isOverridden = (id: string): boolean => before.some(({ overrides }) => overrides === id);
      const older = before.find(({ name, assessmentId }) => name === given.name && !isOverridden(assessmentId));
      const one = given.replaces && older ? { ...given, overrides: older.assessmentId } : given;
      const at = known.findIndex(({ assessmentId }) => assessmentId === one.assessmentId);
      known.splice(at < 0 ? known.length : at, at < 0 ? 0 : 1, one);
    }
    const written = news.map(({ assessmentId }) => assessmentId);
    return { written, alreadyThere: assessments.map((one) => one.assessmentId).filter((id) => !written.includes(id)) };
  };

  get values(): unknown[] {
    return [...this.assessments.values()].flat().map(({ name, value, error }) => [name, value ?? error?.code]);
  }
}
