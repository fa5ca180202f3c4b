/** An attempt at a chunk: its dependencies, and its earlier attempts. */
import type { FunctionContext } from '../../core/aws/function-context.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { LimitsTable } from '../../limits/table.ts';
import type { TraceStore } from '../../mlflow/client.ts';

export interface ChunkDependencies extends FunctionContext {
  store: Pick<
    TraceStore,
    'getExperiment' | 'getTraces' | 'writeTraces' | 'mendTraces' | 'writeAssessments' | 'spansForm'
  >;
  /** The table of the locks, and of sent traces. */
  table: LimitsTable;
  requestId: string;
}

/** Whether an earlier attempt may have processed the chunk or a part of it. */
export const isRepeated = ({ attempt, progress }: Pick<ChunkRequest, 'attempt' | 'progress'>): boolean =>
  attempt > 0 || (progress?.kills ?? 0) > 0 || (progress?.waitSeconds ?? 0) > 0;

/** Whether another run has already processed lines of the chunk, and this run retries them. */
export const isRetry = ({ options }: Pick<ChunkRequest, 'options'>): boolean => options.continues !== undefined;
