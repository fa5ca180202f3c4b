/**
 * Planted personal data is nowhere but in the captures and in the requests of replays: two deployed stacks, one that masks and one that
 * writes no texts, process, fail, are stopped, retry, judge again, replay, and compare with labels; then everything is read.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import {
  DescribeExecutionCommand,
  GetExecutionHistoryCommand,
  ListExecutionsCommand,
  ListStateMachinesCommand,
} from '@aws-sdk/client-sfn';
import { parquetReadObjects } from 'hyparquet';
import { callAws } from '../../src/core/aws/aws-json.ts';
import { queryAws } from '../../src/core/aws/aws-query.ts';
import { REDACT_KINDS } from '../../src/core/settings/redact-setting.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { base64, captureLine, chatReply, chatRequest, csv, json, type Side } from '../helpers/deployed-captures.ts';
import { DeployedPipeline } from '../helpers/deployed-pipeline.ts';
import { DeployedReplay } from '../helpers/deployed-replay.ts';
import { CAPTURE_BUCKET, type LocalEnvironment, startEnvironment } from '../helpers/local-environment.ts';
import { plantedItems } from '../helpers/planted.ts';
import { runCli } from '../helpers/replay.ts';

/** Something that was written, and where. */
type Written = [place: string, bytes: Buffer];

const unpacked = (bytes: Buffer): Buffer => {
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) return gunzipSync(bytes);
  try {
    return bytes[0] === 0x7b ? bytes : brotliDecompressSync(bytes);
  } catch {
    return bytes;
  }
};

/** The rows of a Parquet file, whose pages are compressed. */
async function rowsIn(bytes: Buffer): Promise<Buffer> {
  const rows = await parquetReadObjects({ file: new Uint8Array(bytes).buffer });
  return Buffer.from(JSON.stringify(rows, (_, value) => (typeof value === 'bigint' ? Number(value) : value)));
}

/** All objects of a bucket. */
async function objectsIn({ storage }: DeployedPipeline, bucket: string): Promise<Written[]> {
  const written: Written[] = [];
  for await (const { key } of storage.list(bucket, '')) {
    const { bytes = Buffer.alloc(0) } = (await storage.getBytes(bucket, key)) ?? {};
    written.push([`s3://${bucket}/${key}`, unpacked(bytes)]);
    if (key.endsWith('.parquet')) written.push([`rows of ${key}`, await rowsIn(bytes)]);
  }
  return written;
}

/** All items of all tables, all lines of all logs, and inputs, outputs and steps of all executions. */
async function stateOf({ environment }: DeployedPipeline): Promise<Written[]> {
  const { lambda, sfn } = environment.clients;
  const written: Written[] = [];
  const keep = (place: string, value: unknown) => written.push([place, Buffer.from(JSON.stringify(value))]);
  const { TableNames } = await callAws<{ TableNames: string[] }>(lambda, 'dynamodb', 'ListTables', {});
  for (const TableName of TableNames) {
    keep(`table ${TableName}`, await callAws(lambda, 'dynamodb', 'Scan', { TableName }));
  }
  type Groups = { logGroups: { logGroupName: string }[] };
  const { logGroups } = await callAws<Groups>(lambda, 'logs', 'DescribeLogGroups', {});
  for (const { logGroupName } of logGroups) {
    keep(`log ${logGroupName}`, await callAws(lambda, 'logs', 'FilterLogEvents', { logGroupName }));
  }
  const { stateMachines = [] } = await sfn.send(new ListStateMachinesCommand({}));
  for (const { stateMachineArn } of stateMachines) {
    const { executions = [] } = await sfn.send(new ListExecutionsCommand({ stateMachineArn }));
    for (const { executionArn } of executions) {
      keep(`execution ${executionArn}`, await sfn.send(new DescribeExecutionCommand({ executionArn })));
      keep(`steps ${executionArn}`, await sfn.send(new GetExecutionHistoryCommand({ executionArn })));
    }
  }
  return written;
}

/** All files below a folder. */
const filesIn = (folder: string): Written[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => [path, unpacked(readFileSync(path))]);

/** A text in base64, at each of the three places in which it may begin, without the letters that depend on its neighbours. */
const base64Forms = (text: string): string[] =>
  [0, 1, 2].map((before) => {
    const encoded = Buffer.from('x'.repeat(before) + text)
      .toString('base64')
      .replace(/=+$/, '');
    return encoded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + Buffer.byteLength(text)) * 8) / 6));
  });

const formsOf = (text: string): string[] => [
  ...new Set([text, encodeURIComponent(text), JSON.stringify(text).slice(1, -1), ...base64Forms(text)]),
];

/** Returns `text in place` for each of the texts that was written somewhere, in any case. */
function foundIn(written: readonly Written[], texts: readonly string[]): string[] {
  const needles = texts.map((text) => ({
    text,
    forms: formsOf(text).map((form) => Buffer.from(form).toString('latin1')),
  }));
  return written.flatMap(([place, bytes]) => {
    const whole = bytes.toString('latin1');
    const lower = whole.toLowerCase();
    return needles
      .filter(({ text, forms }) => lower.includes(text.toLowerCase()) || forms.some((form) => whole.includes(form)))
      .map(({ text }) => `${text} in ${place}`);
  });
}

const TARGET = 'candidate';
/** Places in the captures of a file, and that of the stream, whose pieces cut the items. */
const [PLACES, STREAM] = [9, 2];
/** One of each kind, and another one for each place. */
const PLANTED = plantedItems(REDACT_KINDS.length * PLACES, 23).filter(({ item }) => item.length >= 7);
const ITEMS = [...new Set(PLANTED.map(({ item }) => item))];
const SECRET_FIELD = 'Zaphodia Prefectovna';
const REDACT = `${REDACT_KINDS.join(',')},field:customer`;
/** Detectors look only at new captures. */
const HOUR = new Date(Date.now() - 10 * 60_000).toISOString().slice(0, 13);
/** Words of prompts and replies, which differ between the stacks. */
const wordsOf = (prefix: string): string[] =>
  ['xylotheque', 'quokkaberry', 'marmaladium', 'zwieselkamp'].map((word) => `${prefix}${word}`);

const sentencesOf = (place: number): string =>
  PLANTED.filter((_, at) => at % PLACES === place)
    .map(({ sentence }) => sentence)
    .join(' ');

/** A streamed chat whose pieces cut words anywhere. */
function streamed(text: string): Side {
  const pieces = text.match(/[\s\S]{1,7}/gu) ?? [];
  const events = pieces.map((content) => ({ choices: [{ index: 0, delta: { content } }] }));
  return csv(`${events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')}data: [DONE]\n\n`);
}

function capturesOf(prefix: string, part: string): string[] {
  const name = `${prefix}-${part}`;
  const WORDS = wordsOf(prefix);
  const line = (at: number, input: Side, output: Side): string =>
    captureLine(`${name}-${at}`, `${HOUR}:00:0${at}Z`, input, output);
  const toolCall = {
    ...chatReply(''),
    choices: [
      {
        index: 0,
        finish_reason: 'tool_calls',
        message: {
          role: 'assistant',
          content: null,
          tool_calls: [
            {
              id: 'c1',
              type: 'function',
              function: { name: 'note', arguments: JSON.stringify({ text: sentencesOf(3) }) },
            },
          ],
        },
      },
    ],
  };
  const chat = (text: string) => json({ ...chatRequest(`${WORDS[0]} ${text}`), customer: SECRET_FIELD });
  const attributed = JSON.parse(line(6, chat(sentencesOf(6)), json(chatReply(`${WORDS[1]} here`))));
  attributed.eventMetadata.customAttributes = [
    `session_id=${PLANTED.find(({ kind }) => kind === 'email')?.item};note=${WORDS[2]}`,
  ];
  attributed.eventMetadata.inferenceId = PLANTED.find(({ kind }) => kind === 'ip')?.item;
  attributed.comment = sentencesOf(7);
  return [
    line(0, chat(sentencesOf(0)), json(chatReply(`${WORDS[1]} ${sentencesOf(1)}`))),
    line(1, chat('When do roses bloom?'), streamed(`${WORDS[1]} ${sentencesOf(STREAM)}`)),
    line(2, chat('Write a note'), json(toolCall)),
    line(3, csv(`name,note\n${WORDS[2]},"${sentencesOf(4).replaceAll('"', '""')}"\n`), json({ predictions: [1] })),
    line(
      4,
      base64(JSON.stringify(chatRequest(JSON.stringify({ inner: sentencesOf(5), customer: SECRET_FIELD })))),
      base64(JSON.stringify(chatReply(WORDS[1] ?? ''))),
    ),
    line(
      5,
      chat('Fail'),
      json({
        error: { message: `${WORDS[3]}: bad input ${sentencesOf(8)}`, type: 'invalid_request_error', code: 400 },
      }),
    ),
    JSON.stringify(attributed),
    `{"captureData": "${WORDS[3]} ${sentencesOf(1)}`,
  ];
}

const folder = mkdtempSync(join(tmpdir(), 'places-'));
const rawFolder = mkdtempSync(join(tmpdir(), 'captured-'));
interface Delivered {
  Subject: string;
  Message: string;
  Timestamp: string;
}

/** Subscribes a queue. @returns a function that takes the messages that came since its last call */
async function subscribeQueue(pipeline: DeployedPipeline): Promise<() => Promise<Delivered[]>> {
  const { lambda } = pipeline.environment.clients;
  const { QueueUrl } = await callAws<{ QueueUrl: string }>(lambda, 'sqs', 'CreateQueue', {
    QueueName: `messages-${pipeline.prefix}`,
  });
  const { Attributes } = await callAws<{ Attributes: Record<string, string> }>(lambda, 'sqs', 'GetQueueAttributes', {
    QueueUrl,
    AttributeNames: ['QueueArn'],
  });
  const to = { TopicArn: pipeline.outputs.alarmTopicArn, Endpoint: Attributes.QueueArn ?? '' };
  await queryAws(lambda, 'sns', 'Subscribe', { ...to, Protocol: 'sqs' });
  return async () => {
    const found: Delivered[] = [];
    for (;;) {
      const { Messages = [] } = await callAws<{ Messages?: { Body: string; ReceiptHandle: string }[] }>(
        lambda,
        'sqs',
        'ReceiveMessage',
        { QueueUrl, MaxNumberOfMessages: 10 },
      );
      if (Messages.length === 0) return found;
      for (const { Body, ReceiptHandle } of Messages) {
        found.push(JSON.parse(Body) as Delivered);
        await callAws(lambda, 'sqs', 'DeleteMessage', { QueueUrl, ReceiptHandle });
      }
    }
  };
}

let environment: LocalEnvironment;
let endpoint: StandInEndpoint;

beforeAll(async () => {
  endpoint = await startStandInEndpoint({ record: true, latencyMs: 5 });
  environment = await startEnvironment({
    awsEnv: { AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME: endpoint.url, SFN_WAIT_SCALE: '0.05' },
    mlflowDirectory: join(folder, 'mlflow'),
    judge: { keepCalls: 1e6 },
  });
});
afterAll(async () => {
  await environment?.stop();
  await endpoint?.close();
  for (const one of [folder, rawFolder]) rmSync(one, { recursive: true });
});

const printed: Written[] = [];

/** Does to a stack all that may go wrong, and what people do then. */
async function live(prefix: string, settings: Record<string, string>) {
  const name = `${prefix}-endpoint`;
  const hour = `${name}/AllTraffic/${HOUR.replaceAll(/[-T]/g, '/')}`;
  const outputs = await environment.deployStack({
    STACK_PREFIX: prefix,
    EVALUATION_SAMPLE_RATE: '1',
    SAGEMAKER_ENDPOINT_NAME: name,
    BATCH_WINDOW_SECONDS: '0',
    GROUND_TRUTH_S3_PREFIX: `s3://${CAPTURE_BUCKET}/${prefix}-labels/`,
    REPLAY_ENDPOINT_NAMES: TARGET,
    QUALITY_OBJECTIVES:
      '[{"scorer":"pii_detected","is":false,"atLeast":0.999},{"scorer":"completeness","atLeast":0.99}]',
    // A model that Bedrock lists for batch inference.
    BEDROCK_MODEL_ID: 'us.anthropic.claude-sonnet-4-6',
    ...settings,
  });
  const pipeline = new DeployedPipeline(environment, prefix, outputs);
  await environment.mlflow;
  const variables = {
    ...environment.ministack.env,
    STACK_PREFIX: prefix,
    SAGEMAKER_ENDPOINT_NAME: name,
    DATA_CAPTURE_S3_BUCKET: outputs.captureBucket,
    MLFLOW_TRACKING_URI: environment.mlflowUrl,
    MLFLOW_EXPERIMENT_NAME: name,
    ...settings,
  };
  const cli = async (...args: string[]) => {
    const { stdout, stderr, code } = await runCli(args, variables);
    printed.push([`${prefix}: ${args.join(' ')}`, Buffer.from(`${stdout}\n${stderr}`)]);
    return { stdout, stderr, code };
  };
  const messages = await subscribeQueue(pipeline);

  const first = await pipeline.process(`${hour}/first.jsonl`, capturesOf(prefix, 'first'));
  expect(first).toMatchObject({ status: 'SUCCEEDED' });

  // Bedrock's smallest job.
  const many = Array.from({ length: 100 }, (_, at) =>
    captureLine(
      `${prefix}-batch-${at}`,
      `${HOUR}:00:30Z`,
      json(chatRequest(`${wordsOf(prefix)[0]} ${sentencesOf(at % PLACES)}`)),
      json(chatReply(`Well ${at}`)),
    ),
  );
  await pipeline.disableRule();
  await pipeline.put(`${hour}/batch.jsonl`, many);
  const batch = await pipeline.run(pipeline.event(`${hour}/batch.jsonl`, { judge: 'batch' }));
  expect({ status: batch.status, cause: batch.cause }).toMatchObject({ status: 'SUCCEEDED' });
  await pipeline.enableRule();

  // Labels: one that is joined, one with words, and a line that is cut off.
  const labels = new DeployedPipeline(environment, prefix, {
    ...outputs,
    stateMachineArn: outputs.groundTruthStateMachineArn,
  });
  const { eventMetadata } = JSON.parse(capturesOf(prefix, 'first')[3] ?? '');
  const label = (eventId: string, data: string) =>
    JSON.stringify({ groundTruthData: { data, encoding: 'CSV' }, eventMetadata: { eventId }, eventVersion: '0' });
  const joined = await labels.process(`${prefix}-labels/a.jsonl`, [
    label(eventMetadata.eventId, '1'),
    label(sentencesOf(0), sentencesOf(1)),
    `{"id": "${wordsOf(prefix)[3]} ${sentencesOf(3)}`,
  ]);
  expect(joined).toMatchObject({ status: 'SUCCEEDED' });

  // The judge refuses its callers.
  environment.judge.behave({ errorShare: 1, errorStatus: 403, errorType: 'AccessDeniedException' });
  const failed = await pipeline.process(`${hour}/failed.jsonl`, capturesOf(prefix, 'failed'));
  expect(failed.status).toBe('FAILED');
  environment.judge.behave({});
  await cli('retry', failed.name);

  await pipeline.disableRule();
  await pipeline.put(`${hour}/killed.jsonl`, capturesOf(prefix, 'killed'));
  environment.judge.behave({ delayMs: 4_000 });
  const killed = `${prefix}-killed`;
  await cli('process', `${hour}/killed.jsonl`, '--name', killed, '--detach');
  await pipeline.until('a call of the judge', async () => (environment.judge.counts.calls > 0 ? true : undefined));
  await cli('stop', killed);
  environment.judge.behave({});
  await cli('retry', killed, '--what', 'failed');
  await pipeline.run(pipeline.event(`${hour}/first.jsonl`, { reevaluate: true }));
  await pipeline.enableRule();

  const replays = new DeployedReplay(pipeline);
  const replay = { source: { prefix: `${name}/` }, target: { endpoint: TARGET }, shard: { seconds: 60 }, speedup: 100 };
  const replayed = await replays.ended(
    await replays.start({ ...replay, mlflow: true, judge: true, compare: true }, `${prefix}-replay`),
  );
  expect({ status: replayed.status, cause: replayed.cause }).toMatchObject({ status: 'SUCCEEDED' });

  const out = (file: string): string => join(folder, `${prefix}-${file}`);
  const from = ['--from', '1d'];
  for (const args of [
    ['status', ...from],
    ['status', ...from, '--json'],
    ['runs'],
    ['show', first.name],
    ['show', first.name, '--out', out('lines.jsonl')],
    ['worst', ...from],
    ['worst', ...from, '--json'],
    ['rates', ...from],
    ['show', first.name, '--files'],
    ['find', '--scorer', 'completeness', ...from],
    ['doctor', '--ledger'],
    ['report', ...from, '--worst', '--out', out('report.html')],
    ['dataset', ...from, '--out', out('dataset.jsonl'), '--name', `${prefix}-set`],
    ['label', '--scorer', 'completeness', '--next', '10'],
    ['ground-truth', ...from],
  ]) {
    const { code, stderr } = await cli(...args);
    if (code === 2) printed.push([`${prefix}: ${args.join(' ')} said`, Buffer.from(stderr)]);
  }
  printed.push([`${prefix}: messages`, Buffer.from(JSON.stringify(await messages()))]);
  /** Captured bytes, which only the captures' bucket has, with the rights of the caller. */
  const raw = async (...args: string[]): Promise<string> => {
    const file = join(rawFolder, `${prefix}-${args[0]}`);
    const { code, stderr } = await runCli([...args, '--out', file, '--raw'], variables);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    return readFileSync(file, 'utf8');
  };
  return { pipeline, raw, run: first.name };
}

/** All that was written since the start, without the captures themselves. */
async function everything(pipeline: DeployedPipeline): Promise<Written[]> {
  return [
    ...(await objectsIn(pipeline, pipeline.outputs.workBucket)),
    ...(await stateOf(pipeline)),
    ...filesIn(folder),
    ...environment.judge.recorded.map((call, at): Written => [`judge ${at}`, Buffer.from(JSON.stringify(call))]),
    ...printed,
  ];
}

test('with REDACT, nothing that was planted is anywhere else', async () => {
  const { pipeline, raw, run } = await live('masked', {
    REDACT: `${REDACT_KINDS.join(',')},field:customer`,
    ALARM_QUOTES: 'true',
  });
  // The scan finds what is there.
  const captured = await objectsIn(pipeline, pipeline.outputs.captureBucket);
  const texts = [...ITEMS, SECRET_FIELD];
  const seen = foundIn(captured, texts).map((found) => found.split(' in s3://')[0]);
  const cut = PLANTED.filter((_, at) => at % PLACES === STREAM).map(({ item }) => item);
  expect(texts.filter((text) => !seen.includes(text) && !cut.includes(text))).toEqual([]);
  expect(endpoint.requests.length).toBeGreaterThan(0);
  const written = await everything(pipeline);
  // The same scan finds a word that may be there, in each kind of place.
  const [word = ''] = wordsOf('masked');
  const found = foundIn(written, [word]);
  for (const place of ['s3://', 'judge ', folder, 'masked: worst', 'masked: status']) {
    const isThere = found.some((one) => one.includes(` in ${place}`));
    expect({ place, isThere }).toEqual({ place, isThere: place !== 'masked: status' });
  }
  const rows = ['captures', 'verdicts', 'ids/people'].map((table) => `rows of ledger/${table}/`);
  for (const place of [...rows, 'table ', 'log ', 'execution ', 'steps ', 'masked: messages']) {
    const isThere = written.some(([one, bytes]) => one.startsWith(place) && bytes.length > 100);
    expect({ place, isThere }).toEqual({ place, isThere: true });
  }
  expect(foundIn(written, texts)).toEqual([]);
  // The places of quarantined lines are kept, and the lines are read again from their file.
  expect(await raw('show', run)).toContain(`"${wordsOf('masked')[3]} `);
  expect(await raw('dataset', '--from', '1d')).toContain(SECRET_FIELD);
});

test('with CONTENT=none, no word of a capture is anywhere else', async () => {
  const { pipeline } = await live('textless', { REDACT, CONTENT: 'none' });
  const written = await everything(pipeline);
  expect(foundIn(written, [...ITEMS, SECRET_FIELD])).toEqual([]);
  // The judge reads the captures, masked.
  const [toJudge, kept] = [true, false].map((is) => written.filter(([place]) => place.startsWith('judge ') === is));
  expect(foundIn(toJudge ?? [], wordsOf('textless'))).not.toEqual([]);
  expect(foundIn(kept ?? [], wordsOf('textless'))).toEqual([]);
  // Requests and answers of batch inference are gone. The state of the jobs has places and numbers.
  const inBatch = kept
    ?.map(([place]) => place)
    .filter((place) => place.startsWith(`s3://${pipeline.outputs.workBucket}/batch/`) && !place.includes('/state/'));
  expect(inBatch).toEqual([]);
});
