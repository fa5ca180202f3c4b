/** Reads existing traces and their assessments. */

import type { z } from 'zod';
import { RUN_TAG } from '../captures/trace/ids.ts';
import { forEachConcurrently } from '../core/process/concurrency.ts';
import { batches } from '../core/values/batches.ts';
import { REPLACED_AT } from './assessment-metadata.ts';
import type { CapabilityProbe } from './capabilities.ts';
import { MlflowRefusedError } from './errors.ts';
import { type AssessmentReply, searchReply, type TraceInfoReply, traceInfosReply } from './replies.ts';
import type { Call, MlflowRest } from './rest.ts';
import type { AssessmentValue, StoredAssessment, StoredTrace } from './types.ts';

/** Also per page. A filter with 100 ids has 3.7 kB. The reply for 100 traces with 20 assessments each has about 1 MB. */
const IDS_PER_READ = 100;
const CONCURRENT_READS = 2;

export async function readTraces(
  rest: MlflowRest,
  probe: CapabilityProbe,
  experimentId: string,
  traceIds: readonly string[],
): Promise<Map<string, StoredTrace>> {
  const ids = [...new Set(traceIds)];
  const found = new Map<string, StoredTrace>();
  await forEachConcurrently(CONCURRENT_READS, batches(ids, IDS_PER_READ), async (part) => {
    const infos = await readPart(rest, probe, experimentId, part);
    const { otlp } = await probe.get();
    for (const stored of infos.map(storedTrace)) {
      found.set(stored.traceId, otlp && lacksSpans(stored) ? { ...stored, lacksSpans: true } : stored);
    }
  });
  return found;
}

async function readPart(
  rest: MlflowRest,
  probe: CapabilityProbe,
  experimentId: string,
  ids: string[],
): Promise<TraceInfoReply[]> {
  if ((await probe.get()).batchRead) {
    try {
      const call = { method: 'POST', path: '/api/3.0/mlflow/traces/batchGetInfos', json: { trace_ids: ids } } as const;
      return (await rest.repeat(call, traceInfosReply)).trace_infos;
    } catch (error) {
      if (!(error instanceof MlflowRefusedError) || !error.routeMissing) throw error;
      await probe.lacks('batchRead');
    }
  }
  return search(rest, experimentId, ids);
}

async function search(rest: MlflowRest, experimentId: string, ids: string[]): Promise<TraceInfoReply[]> {
  const found: TraceInfoReply[] = [];
  const filter = `request_id IN (${ids.map((id) => `'${id}'`).join(',')})`;
  for await (const page of searchTraces(rest, experimentId, { filter })) found.push(...page);
  return found;
}

/** Yields the traces of an experiment, page by page. */
export async function* searchTraces(
  rest: Pick<MlflowRest, 'repeat'>,
  experimentId: string,
  query: { filter?: string | undefined; order_by?: string[] },
): AsyncGenerator<TraceInfoReply[]> {
  const locations = [{ type: 'MLFLOW_EXPERIMENT', mlflow_experiment: { experiment_id: experimentId } }];
  const callOf = (token: PageToken): Call => {
    const json = { locations, max_results: IDS_PER_READ, ...query, ...token };
    return { method: 'POST', path: '/api/3.0/mlflow/traces/search', json };
  };
  for await (const { traces } of pagesOf(rest, searchReply, callOf)) yield traces;
}

type PageToken = { page_token?: string };

/** Yields the pages of a list. @param callOf returns the call for the page behind a token, or for the first */
export async function* pagesOf<Page extends { next_page_token?: string | undefined }>(
  rest: Pick<MlflowRest, 'repeat'>,
  reply: z.ZodType<Page>,
  callOf: (token: PageToken) => Call,
): AsyncGenerator<Page> {
  let next: string | undefined;
  do {
    const page = await rest.repeat(callOf(next ? { page_token: next } : {}), reply);
    yield page;
    next = page.next_page_token;
  } while (next);
}

/** MLflow sets this tag when it stores spans that came by OTLP. */
const SPANS_TAG = 'mlflow.trace.spansLocation';

/** Whether a trace exists without spans that came by OTLP. */
export const lacksSpans = (stored: StoredTrace | undefined): boolean =>
  stored?.info !== undefined && !stored.info.tagKeys.includes(SPANS_TAG);

function storedTrace(info: TraceInfoReply): StoredTrace {
  return {
    readAtMs: Date.now(),
    traceId: info.trace_id,
    state: info.state,
    assessments: info.assessments.map(storedAssessment),
    info: {
      experimentId: info.trace_location.mlflow_experiment?.experiment_id ?? '',
      tagKeys: Object.keys(info.tags),
      run: info.tags[RUN_TAG],
    },
  };
}

function storedAssessment(reply: AssessmentReply): StoredAssessment {
  const value = reply.feedback?.value ?? reply.expectation?.value;
  return {
    assessmentId: reply.assessment_id,
    name: reply.assessment_name,
    sourceType: reply.source.source_type,
    sourceId: reply.source.source_id,
    ...(value === undefined || value === null ? {} : { value: value as AssessmentValue }),
    ...(reply.feedback?.error ? { errorCode: reply.feedback.error.error_code } : {}),
    valid: reply.valid,
    ...(reply.overrides ? { overrides: reply.overrides } : {}),
    metadata: reply.metadata,
    ...(reply.expectation ? { isExpectation: true } : {}),
    ...(reply.span_id ? { spanId: reply.span_id } : {}),
    ...(isEdited(reply) ? { isEdited: true } : {}),
  };
}

/** The clocks of the function and of MLflow may differ by this much. */
const CLOCKS_MS = 60_000;

/** An assessment is written with two equal times. MLflow changes the second one when somebody, or a verdict, replaces its content. */
function isEdited({ create_time, last_update_time, metadata }: AssessmentReply): boolean {
  const changed = Date.parse(last_update_time);
  const replacedAt = metadata[REPLACED_AT];
  return replacedAt === undefined ? changed > Date.parse(create_time) : changed - Date.parse(replacedAt) > CLOCKS_MS;
}
