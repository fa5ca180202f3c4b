/** Traces and assessments as the pipeline passes them to the MLflow client, and the servers that get them. */
import { hash } from 'node:crypto';
import type { TraceRecord } from '../../src/captures/trace/types.ts';
import type { MlflowClient } from '../../src/mlflow/client.ts';
import type { NewAssessment } from '../../src/mlflow/types.ts';
import type { MisbehavingServer } from '../doubles/misbehaving-server.ts';
import type { MlflowReader } from './mlflow-reader.ts';

/** A real server, for the suites of tests that every MLflow version passes. */
export interface SuiteSetup {
  client: MlflowClient;
  reader: MlflowReader;
  /** A client that reaches the same server through a misbehaving proxy. */
  faulty: { client: MlflowClient; proxy: MisbehavingServer };
  version: string;
}

/** The paths to which traces are sent, and by which they are deleted. */
export const OTLP = '/v1/traces';
export const POST = '/api/3.0/mlflow/traces';
export const DELETE = '/api/2.0/mlflow/traces/delete-traces';

/** The experiment of the scripted server. */
export const EXPERIMENT = { id: '7', name: 'e', artifactLocation: 'mlflow-artifacts:/7' };

/** Returns traces of that experiment. */
export const traces = (count: number, changes?: (n: number) => Partial<TraceRecord>): TraceRecord[] =>
  Array.from({ length: count }, (_, n) => chatTrace('7', `record ${n}`, changes?.(n)));

export const idsOf = (traces: readonly { traceId: string }[]): string[] => traces.map(({ traceId }) => traceId).sort();

const hex = (text: string): string => hash('sha256', text);

/** Returns a chat trace with every optional field. The same `experimentId` and `name` give the same ids. */
export function chatTrace(experimentId: string, name: string, changes: Partial<TraceRecord> = {}): TraceRecord {
  const digest = hex(`${experimentId}\n${name}`);
  const startTimeMs = changes.startTimeMs ?? Date.parse('2026-11-20T09:15:00Z');
  const endTimeMs = changes.endTimeMs ?? startTimeMs;
  const messages = [
    { role: 'system', content: 'You answer questions about bicycles.' },
    { role: 'user', content: `How do I fix a flat tyre? (${name})` },
  ];
  const reply = { role: 'assistant', content: `Take the wheel off, lever the tyre, patch the tube. (${name})` };
  return {
    traceId: `tr-${digest.slice(0, 32)}`,
    name: 'bicycle-endpoint',
    startTimeMs,
    endTimeMs,
    state: 'OK',
    clientRequestId: `inference-${name}`,
    requestPreview: messages[1]?.content ?? '',
    responsePreview: reply.content,
    tags: {
      sagemaker_endpoint_name: 'bicycle-endpoint',
      sagemaker_variant_name: 'AllTraffic',
      event_id: `event-${name}`,
      inference_id: `inference-${name}`,
      inference_time: '2026-11-20T09:15:00Z',
      status_code: '200',
      s3_bucket_name: 'captures',
      s3_file_key: 'bicycle-endpoint/AllTraffic/2026/11/20/09/part 1+2.jsonl',
      capture_format: 'chat',
    },
    tokenUsage: { input_tokens: 21, output_tokens: 17, total_tokens: 38 },
    model: 'bicycle-model',
    spans: [
      {
        spanId: digest.slice(32, 48),
        name: 'bicycle-endpoint',
        spanType: 'CHAT_MODEL',
        startTimeMs,
        endTimeMs,
        inputs: { messages, max_tokens: 200 },
        outputs: { choices: [{ index: 0, message: reply, finish_reason: 'stop' }] },
        attributes: { 'mlflow.message.format': 'openai', 'capture.latency_known': false },
        status: { code: 'OK' },
      },
    ],
    ...changes,
  };
}

/** Returns a verdict of a judge. The same trace, name and `version` give the same id. */
export function verdict(
  traceId: string,
  name: string,
  changes: Partial<NewAssessment> & { version?: string } = {},
): NewAssessment {
  const { version = '1', ...rest } = changes;
  return {
    assessmentId: `a-${hex(`${traceId}\n${name}\n${version}`).slice(0, 32)}`,
    traceId,
    name,
    sourceType: 'LLM_JUDGE',
    sourceId: 'bedrock:/judge-model',
    ...(rest.error === undefined ? { value: 'yes', rationale: `Because of ${name}.` } : {}),
    metadata: { 'mlflow.assessment.scorerName': name, 'mlflow.assessment.judgeCost': '0.0012' },
    createTimeMs: Date.parse('2026-11-20T10:00:00Z'),
    ...rest,
  };
}
