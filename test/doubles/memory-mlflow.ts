/** An MLflow in memory with judged traces, for `label` and for those who read labels. It has no review queues. */
import { MlflowRefusedError } from '../../src/mlflow/errors.ts';
import type { MlflowRest } from '../../src/mlflow/rest.ts';

export interface MemoryTrace {
  trace_id: string;
  request_time: string;
  request_preview: string;
  response_preview: string;
  tags: Record<string, string>;
  assessments: object[];
}

export interface Given {
  /** Absent: an LLM judge. */
  by?: 'HUMAN' | 'CODE';
  /** When the assessment was made, epoch milliseconds. */
  atMs?: number;
  metadata?: Record<string, string>;
}

/** Returns an assessment as MLflow does. */
export const assessment = (name: string, value: unknown, { by, atMs, metadata = {} }: Given = {}): object => ({
  assessment_name: name,
  source: { source_type: by ?? 'LLM_JUDGE', source_id: by === 'HUMAN' ? 'ann@example.com' : 'm' },
  feedback: { value },
  metadata,
  valid: true,
  rationale: '',
  create_time: atMs === undefined ? '' : new Date(atMs).toISOString(),
  last_update_time: '',
});

interface Call {
  path: string;
  method?: string;
  json?: { filter?: string; key?: string; value?: string };
}

export class MemoryMlflow {
  readonly traces = new Map<string, MemoryTrace>();
  readonly #times = new Map<string, number>();
  /** The filters that were asked for. */
  readonly filters: string[] = [];

  add(id: string, inferenceMs: number, assessments: object[], variant = 'AllTraffic'): void {
    this.#times.set(id, inferenceMs);
    this.traces.set(id, {
      trace_id: id,
      request_time: new Date(inferenceMs).toISOString(),
      request_preview: '',
      response_preview: '',
      tags: { sagemaker_variant_name: variant },
      assessments,
    });
  }

  assess(id: string, given: object): void {
    this.traces.get(id)?.assessments.push(given);
  }

  readonly rest = {
    repeat: async ({ path, json = {} }: Call) => {
      if (path.includes('review-queues')) throw this.#refused(404);
      if (path.endsWith('/tags')) {
        const trace = this.traces.get(path.split('/')[5] ?? '');
        if (trace !== undefined) trace.tags[json.key ?? ''] = json.value ?? '';
        return {};
      }
      this.filters.push(json.filter ?? '');
      const conditions = (json.filter ?? '')
        .split(' AND ')
        .filter(Boolean)
        .map((text) => this.#condition(text));
      return { traces: [...this.traces.values()].filter((trace) => conditions.every((is) => is(trace))) };
    },
  } as unknown as Pick<MlflowRest, 'repeat'>;

  #condition(text: string): (trace: MemoryTrace) => boolean {
    const [, time, ms] = /^timestamp_ms (>=|<) (\d+)$/.exec(text) ?? [];
    if (time !== undefined) return ({ trace_id: id }) => Number(this.#times.get(id)) < Number(ms) === (time === '<');
    const [, tag = '', value] = /^tag\.(\w+) = '([^']*)'$/.exec(text) ?? [];
    if (value === undefined) throw this.#refused(400, 'INVALID_PARAMETER_VALUE');
    return ({ tags }) => tags[tag] === value;
  }

  #refused = (status: number, errorCode?: string) =>
    new MlflowRefusedError('refused', { got: '', where: '', status, ...(errorCode && { errorCode }) });
}
