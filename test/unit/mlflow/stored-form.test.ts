/** What is stored with MLflow and next to it: spans by OTLP, the file of spans, and the files of a run. */
import type { S3Client } from '@aws-sdk/client-s3';
import type { TraceRecord } from '../../../src/captures/trace/types.ts';
import { spansStore } from '../../../src/mlflow/artifact-store.ts';
import { otlpTrace } from '../../../src/mlflow/otlp.ts';
import { putRunFiles } from '../../../src/mlflow/run-files.ts';
import { spansFile } from '../../../src/mlflow/trace-json.ts';
import { chatTrace } from '../../helpers/mlflow-traces.ts';

/** An S3 client that keeps the commands. */
const recordingS3 = () => {
  const sent: object[] = [];
  const client = { send: async (command: { input: object }) => sent.push(command.input) };
  return { sent, s3: client as unknown as S3Client };
};

const withChild = (): TraceRecord => {
  const trace = chatTrace('7', 'a');
  const [root] = trace.spans;
  if (!root) throw new Error('The trace has no span');
  return { ...trace, spans: [root, { ...root, spanId: 'abababababababab', parentSpanId: root.spanId }] };
};

test('only the root span has the attributes of the trace', () => {
  const tagged = otlpTrace(withChild()).spans.map(({ attributes }) =>
    Object.keys(attributes).some((name) => name.startsWith('mlflow.traceTag.')),
  );
  expect(tagged).toEqual([true, false]);
});

test('the spans in the file have the ids of the trace, in bytes', () => {
  const trace = withChild();
  const { spans } = JSON.parse(spansFile(trace).toString('utf8')) as { spans: Record<string, string | null>[] };
  const hex = (name: string) => spans.map((span) => Buffer.from(span[name] ?? '', 'base64').toString('hex'));
  expect(hex('trace_id')).toEqual(spans.map(() => trace.traceId.replace('tr-', '')));
  expect(hex('span_id')).toEqual(trace.spans.map(({ spanId }) => spanId));
  expect(hex('parent_span_id')).toEqual(['', trace.spans[0]?.spanId]);
});

test('the file of spans is in the experiment’s folder in S3', async () => {
  const { sent, s3 } = recordingS3();
  const experiment = { id: '7', name: 'e', artifactLocation: 's3://artifacts/mlflow/7' };
  await spansStore({} as never, experiment, s3).put('tr-1', Buffer.from('{}'));
  expect(sent).toMatchObject([{ Bucket: 'artifacts', Key: 'mlflow/7/traces/tr-1/artifacts/traces.json' }]);
});

test('files of a run that cannot be stored are named with the reason', async () => {
  const { sent, s3 } = recordingS3();
  const file = (name: string, size: number) => ({ name, size, read: async () => Buffer.alloc(0) });
  const put = (artifactUri: string) =>
    putRunFiles({} as never, { artifactUri } as never, [file('a.json', 1), file('b.csv', 2 ** 30)], async () => s3);
  expect(await put('dbfs:/x')).toEqual([
    'a.json (this server keeps artifacts at dbfs:/x, which is not supported)',
    'b.csv (1073741824 bytes; at most 67108864)',
  ]);
  expect(sent).toEqual([]);
  expect(await put('s3://artifacts/x')).toHaveLength(1);
  expect(sent).toMatchObject([{ Bucket: 'artifacts', Key: 'x/a.json', ContentType: 'application/json' }]);
});
