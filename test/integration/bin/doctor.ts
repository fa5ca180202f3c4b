/** Doctor on the deployed stack. What the emulator lacks (SageMaker, Service Quotas) is served by a server in front of it. */
import type { RequestListener } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { PutBucketNotificationConfigurationCommand } from '@aws-sdk/client-s3';
import doctorCommand from '../../../bin/commands/doctor.ts';
import type { Diagnosis } from '../../../bin/doctor/diagnose.ts';
import { callAws } from '../../../src/core/aws/aws-json.ts';
import { Storage, type Work } from '../../../src/core/aws/storage.ts';
import { CONTRACT } from '../../../src/core/contract/contract.ts';
import { resourceNames } from '../../../src/core/contract/names.ts';
import { appendRows, listFiles, removeFiles } from '../../../src/ledger/files.ts';
import type { Table } from '../../../src/ledger/tables.ts';
import { withVariables } from '../../helpers/aws-answers.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { ledgerRows } from '../../helpers/ledger-rows.ts';
import { type Serving, serve } from '../../helpers/serve.ts';
import { ENDPOINT, environment, GROUND_TRUTH_S3_PREFIX, PREFIX, pipeline, run } from './stack.ts';

const OWN: Record<string, () => unknown> = {
  'SageMaker.DescribeEndpoint': () => ({
    EndpointName: ENDPOINT,
    EndpointConfigName: 'config',
    EndpointStatus: 'InService',
    ProductionVariants: [{ VariantName: 'AllTraffic' }],
    DataCaptureConfig: {
      EnableCapture: true,
      CaptureStatus: 'Started',
      CurrentSamplingPercentage: 50,
      DestinationS3Uri: `s3://${pipeline.outputs.captureBucket}/`,
      KmsKeyId: '',
    },
  }),
  'SageMaker.DescribeEndpointConfig': () => ({
    DataCaptureConfig: { CaptureOptions: [{ CaptureMode: 'InputAndOutput' }] },
  }),
  'ServiceQuotasV20190624.ListServiceQuotas': () => ({ Quotas: [] }),
};

/** Answers itself what the emulator lacks, and asks the emulator, or the stand-in for Bedrock, everything else. */
const answerInFront: RequestListener = async (message, response) => {
  const body = await buffer(message);
  const path = message.url ?? '/';
  const own = OWN[String(message.headers['x-amz-target'] ?? path)];
  if (own) {
    response.end(JSON.stringify(own()));
    return;
  }
  const { host: _host, connection: _connection, expect: _expect, ...headers } = message.headers;
  const upstream = /^\/(foundation-model|inference-profiles)/.test(path) ? environment.judge : environment.ministack;
  const hasBody = !['GET', 'HEAD'].includes(message.method ?? '');
  const reply = await fetch(upstream.url + path, {
    method: message.method,
    headers: headers as Record<string, string>,
    ...(hasBody ? { body } : {}),
  });
  const { 'content-length': _length, 'content-encoding': _encoding, ...rest } = Object.fromEntries(reply.headers);
  response.writeHead(reply.status, rest);
  response.end(Buffer.from(await reply.arrayBuffer()));
};

let front: Serving;
beforeAll(async () => {
  front = await serve(answerInFront);
});
afterAll(() => front.close());

/** The findings that are not ok, as lines. */
async function doctor(variables: Record<string, string> = {}, ...flags: string[]) {
  const { url } = front;
  const own = {
    AWS_ENDPOINT_URL: url,
    AWS_ENDPOINT_URL_BEDROCK: url,
    BATCH_WINDOW_SECONDS: '0',
    GROUND_TRUTH_S3_PREFIX,
  };
  const shell = { ...process.env, ...own, ...variables } as Record<string, string>;
  const { code, stdout } = await withVariables(shell, () => run(doctorCommand(), '--json', ...flags));
  const { findings } = JSON.parse(stdout) as Diagnosis;
  const told = findings.filter(({ level }) => level !== 'ok');
  return {
    code,
    lines: told.map(({ level, check, message }) => `${level} ${check}: ${message}`),
    ok: findings.filter(({ level }) => level === 'ok').map(({ check, message }) => `${check}: ${message}`),
  };
}

const NO_QUOTA = expect.stringMatching(/^warning quota: Service Quotas has no quota/);

const DAY = '2026-11-17';
const LEDGER = ['--ledger', '--from', DAY, '--to', '2026-11-18'];

describe('doctor --ledger', () => {
  const ids: string[] = [];
  const hour = `${ENDPOINT}/AllTraffic/${DAY.replaceAll('-', '/')}/10`;
  let work: Work;
  const rowsOfDay = async () => {
    const rows = await ledgerRows(work.storage, work.workBucket);
    return { traces: rows.captures.filter(isOfDay), verdicts: rows.verdicts.filter(isOfDay) };
  };
  const isOfDay = (row: { hour?: string }) => row.hour?.startsWith(DAY);
  const filesOfDay = (table: Table) => Array.fromAsync(listFiles(work, table, DAY, DAY), ({ key }) => key);
  /** Processes a chat, and returns the files with its rows. */
  async function processed(name: string): Promise<{ captures: string[]; verdicts: string[] }> {
    const before = [...(await filesOfDay('captures')), ...(await filesOfDay('verdicts'))];
    await pipeline.process(`${hour}/${name}.jsonl`, [chatLine(name, `${DAY}T10:07:00Z`)]);
    const { traces } = await rowsOfDay();
    ids.push(traces.find(({ key }) => key?.includes(name))?.traceId ?? '');
    const isNew = (key: string) => !before.includes(key);
    const [captures, verdicts] = [await filesOfDay('captures'), await filesOfDay('verdicts')];
    return { captures: captures.filter(isNew), verdicts: verdicts.filter(isNew) };
  }
  const send = (method: string, path: string, json?: object) =>
    fetch(`${environment.mlflowUrl}/api/${path}`, {
      method,
      ...(json && { body: JSON.stringify(json), headers: { 'content-type': 'application/json' } }),
    }).then((reply) => expect(reply.status).toBe(200));

  beforeAll(() => {
    work = { storage: new Storage(environment.clients.s3), workBucket: pipeline.outputs.workBucket };
  });

  test('finds nothing in a stack that works', async () => {
    await processed('whole');
    const { lines, ok } = await doctor({}, ...LEDGER);
    expect(lines).toEqual([NO_QUOTA]);
    expect(ok).toContainEqual(
      expect.stringMatching(
        /^ledger: 1 trace and [1-9]\d* verdicts of the ledger are in MLflow, which has no others of the stack\.$/,
      ),
    );
  });

  test('names what people have deleted, and what has no row', async () => {
    await processed('deleted');
    const lost = await processed('lost');
    const half = await processed('half');
    const { traces, verdicts } = await rowsOfDay();
    const [whole = '', deleted = '', unknown = '', silent = ''] = ids;
    const verdictOf = (traceId: string, name: string) =>
      verdicts.find((row) => row.traceId === traceId && row.scorer === name);
    const { experimentId } = traces[0] ?? {};
    await send('POST', '2.0/mlflow/traces/delete-traces', { experiment_id: experimentId, request_ids: [deleted] });
    const gone = verdictOf(whole, 'safety');
    await send('DELETE', `3.0/mlflow/traces/${whole}/assessments/${gone?.assessmentId}`);
    // Another value, as if the rows of a later verdict had been written alone.
    const other = verdictOf(whole, 'fluency');
    await appendRows(work, { verdicts: [{ ...other, value: 'other', precedence: (other?.precedence ?? 0n) + 1n }] });
    await removeFiles(work, [...lost.captures, ...lost.verdicts, ...half.verdicts]);
    const { lines, code } = await doctor({}, ...LEDGER);
    const about = (what: string) => lines.filter((line) => line.startsWith('warning ledger: ') && line.includes(what));
    expect(about('traces of the ledger are not in MLflow')).toEqual([expect.stringContaining(`1 traces of`)]);
    expect(about('traces of the ledger are not in MLflow')[0]).toContain(deleted);
    expect(about('traces in MLflow are in no row')[0]).toContain(`: ${unknown}. `);
    expect(about('verdicts of the ledger are not in MLflow')[0]).toContain(`: ${whole} safety. `);
    expect(about('verdicts of the ledger have another value')[0]).toContain(`: ${whole} fluency. `);
    expect(about('verdicts in MLflow are in no row')[0]).toContain(silent);
    expect(lines).toHaveLength(6);
    expect(code).toBe(0);
  });

  test('is what --from is for', async () => {
    expect((await run(doctorCommand(), '--from', '1d')).error?.name).toBe('OptionsContradict');
  });
});

describe('doctor', () => {
  test('finds a deployed stack in order', async () => {
    const { code, lines, ok } = await doctor();
    expect(lines).toEqual([NO_QUOTA]);
    expect(code).toBe(0);
    for (const each of [
      /^captures: The newest capture under .* came .* (?:s|min) ago\.$/,
      /^events: The bucket \S+ sends its events to EventBridge\.$/,
      /^mlflow: Version .* takes traces by the REST API and OTLP\.$/,
      /^stack: The stack SageMakerInferenceMonitoringStack-operated is CREATE_COMPLETE\.$/,
      /^deployed: The functions' settings are those of \.env and the environment\.$/,
      /^delivery: New captures start runs\.$/,
      /^alarms: No alarm is on\.$/,
      /^data: Captures are kept as captured: traces until you delete them, quarantine 365 days, .*\. See docs\/your-data\.md\.$/,
    ]) {
      expect(ok).toContainEqual(expect.stringMatching(each));
    }
  });

  test('names settings that are not deployed', async () => {
    const changed = { EVALUATION_SAMPLE_RATE: '0.1', LAMBDA_MEMORY_MB: '2048', FEATURE_NAMES: '["age"]' };
    const { code, lines } = await doctor(changed);
    expect(lines).toEqual([
      NO_QUOTA,
      'warning deployed: EVALUATION_SAMPLE_RATE is deployed as not set, and here it is 0.1.',
      'warning deployed: FEATURE_NAMES is deployed as [], and here it is ["age"].',
      'warning deployed: LAMBDA_MEMORY_MB is deployed as 1024, and here it is 2048.',
    ]);
    expect(code).toBe(0);
  });

  test('names a stack of an older and of a newer version', async () => {
    await pipeline.setVariable('processor', 'CONTRACT', '99');
    const newer = await doctor();
    await pipeline.setVariable('processor', 'CONTRACT', '0');
    const older = await doctor();
    await pipeline.setVariable('processor', 'CONTRACT', String(CONTRACT));
    const line = (age: string, contract: number) =>
      `warning version: The stack was deployed by ${age} version (contract ${contract}, here ${CONTRACT}).`;
    expect(newer.lines).toEqual([NO_QUOTA, line('a newer', 99)]);
    expect(older.lines).toEqual([NO_QUOTA, line('an older', 0)]);
  });

  test('names raised alarms, a rule that is off and a bucket that sends no events', async () => {
    const { lambda, s3 } = environment.clients;
    const Bucket = pipeline.outputs.captureBucket;
    const notify = (on: boolean) => {
      const NotificationConfiguration = on ? { EventBridgeConfiguration: {} } : {};
      return s3.send(new PutBucketNotificationConfigurationCommand({ Bucket, NotificationConfiguration }));
    };
    const alarm = { AlarmName: `sagemaker-monitoring-${PREFIX}-RunThrottled`, StateReason: 'test' };
    const ring = (StateValue: string) => callAws(lambda, 'monitoring', 'SetAlarmState', { ...alarm, StateValue });
    await Promise.all([notify(false), ring('ALARM'), pipeline.disableRule()]);
    try {
      const { code, lines } = await doctor();
      expect(lines).toEqual([
        `error events: The bucket ${Bucket} does not send its events to EventBridge: new captures are not processed.`,
        NO_QUOTA,
        `error delivery: New captures start no runs: the rule ${resourceNames(PREFIX).rule} is DISABLED.`,
        `error alarms: The alarm sagemaker-monitoring-${PREFIX}-RunThrottled is on: Step Functions throttles this state machine or the children of its Maps.`,
      ]);
      expect(code).toBe(1);
    } finally {
      await Promise.all([notify(true), ring('OK'), pipeline.enableRule()]);
    }
  });

  test('says what is masked, and names a field that no capture had and an endpoint with two sources', async () => {
    const now = new Date(Date.now() - 60_000).toISOString().slice(0, 19);
    const key = `${ENDPOINT}/AllTraffic/${now.slice(0, 13).replaceAll(/[-T]/g, '/')}/fields.jsonl`;
    const client = { streamed: false, calls: 'all', ended: 'whole', status: 200, endMs: 9 };
    const byClient = JSON.stringify({ ...JSON.parse(chatLine('fields', `${now}Z`)), client });
    await pipeline.process(key, [chatLine('fields', `${now}Z`), byClient]);
    await pipeline.setVariable('processor', 'REDACT', 'email,field:nobody');
    const { lines, ok } = await doctor({ REDACT: 'email,field:nobody' });
    await pipeline.setVariable('processor', 'REDACT', '');
    expect(lines).toContain('warning data: No capture of a week had field:nobody of REDACT.');
    expect(lines).toContainEqual(expect.stringMatching(/^warning data: In a week, the endpoint has two sources, /));
    const masked = /^data: Captures are kept masked \(email, field:nobody\): .*, quarantine \(places only\) 365 days,/;
    expect(ok).toContainEqual(expect.stringMatching(masked));
  });
});
