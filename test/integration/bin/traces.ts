/** Tests of the commands about traces: worst, dataset and open. */
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { DeleteObjectCommand } from '@aws-sdk/client-s3';
import datasetCommand, { type Output as DatasetOutput } from '../../../bin/commands/dataset.ts';
import openCommand, { type Output as OpenOutput } from '../../../bin/commands/open.ts';
import replayCommand from '../../../bin/commands/replay.ts';
import worstCommand, { type Output as WorstOutput } from '../../../bin/commands/worst.ts';
import { startSageMakerMlflowDouble } from '../../doubles/sagemaker-mlflow.ts';
import { withVariables } from '../../helpers/aws-answers.ts';
import { MlflowApi } from '../../helpers/mlflow-api.ts';
import { MANAGED_ARN } from '../../helpers/mlflow-managed.ts';
import { expectPublished } from '../../helpers/published-json.ts';
import { serve } from '../../helpers/serve.ts';
import { temporaryFolder } from '../../helpers/temporary-folder.ts';
import { ENDPOINT, environment, HOUR, PREFIX, PROCESSED_KEY, PROCESSED_LINES, pipeline, run } from './stack.ts';

const FROM = ['--from', '2026-11-01'];

const folder = temporaryFolder('traces-');

const mlflow = (): MlflowApi => new MlflowApi(environment.mlflowUrl);

/** Says as a person what a trace's reply is by a scorer. */
async function assess(traceId: string, scorer: string, value: string): Promise<void> {
  const at = new Date().toISOString();
  const assessment = {
    assessment_name: scorer,
    source: { source_type: 'HUMAN', source_id: 'ada' },
    feedback: { value },
    rationale: `Ada says ${value}.`,
    create_time: at,
    last_update_time: at,
  };
  await mlflow().api(`3.0/mlflow/traces/${traceId}/assessments`, { assessment });
}

describe('worst', () => {
  const worst = async (...args: string[]) => {
    const { stdout, error } = await run(worstCommand(), ...FROM, '--json', ...args);
    if (error) throw error;
    return expectPublished<WorstOutput>('worst', stdout);
  };

  test('prints the traces with failing verdicts, the worst first, with words and a link', async () => {
    const [judged] = (await worst()).worst;
    const traces = await mlflow().tracesIn(ENDPOINT);
    const other = traces.find(({ trace_id: traceId }) => traceId !== judged?.traceId)?.trace_id ?? '';
    for (const scorer of ['safety', 'fluency', 'completeness', 'relevance_to_query', 'cut_off'])
      await assess(other, scorer, 'no');
    const { stdout, code } = await run(worstCommand(), ...FROM);
    const report = await worst();
    expect(code).toBe(0);
    expect(report.worst.map(({ traceId }) => traceId)).toEqual([other, judged?.traceId]);
    expect(stdout).toMatch(/^ {2}safety fails \(ada\): Ada says no\.$/m);
    const failing = [{ scorer: 'safety', good: false }, {}, {}, {}];
    expect(report.worst[0]).toMatchObject({ severity: 'harm', count: 1, failing });
    const [first] = report.worst;
    expect(stdout).toContain(`1. harm: ${first?.failing.length} of ${first?.verdicts} verdicts fail, 2026-11-20 `);
    expect(stdout).toContain(first?.url);
    expect(stdout).toContain(first?.failing[0]?.rationale.trim());
    expect(stdout).toMatch(/^2026-11-01 00:00 to .* UTC: \d+ traces, \d+ of them judged, \d+ with a failing verdict$/m);
    expect((await worst('--limit', '1')).worst).toEqual([first]);
    expect((await worst('--scorer', 'safety')).worst).toMatchObject([{ traceId: other, verdicts: 1 }]);
  });

  test('what a person says counts in place of the judge', async () => {
    const before = await worst();
    const [first] = before.worst;
    const [verdict] = first?.failing ?? [];
    await assess(first?.traceId ?? '', verdict?.scorer ?? '', verdict?.value === 'no' ? 'yes' : 'no');
    const of = (report: typeof before) => report.worst.find(({ traceId }) => traceId === first?.traceId)?.failing ?? [];
    expect(of(await worst()).map(({ scorer }) => scorer)).toEqual(
      (first?.failing ?? []).slice(1).map(({ scorer }) => scorer),
    );
    expect(of(before).length).toBeGreaterThan(0);
  });

  test.each([
    [['--scorer', 'safty'], /did you mean safety/],
    [['--experiment', 'nowhere'], /The experiment does not exist/],
    [['--from', '2026-11-20', '--to', '2026-11-19'], /The window is empty/],
    [['--limit', '0'], /from 1 to 1000/],
  ])('%j is an error', async (args, message) => {
    const { error, stdout } = await run(worstCommand(), ...args);
    expect(error?.message).toMatch(message);
    expect(stdout).toBe('');
  });
});

describe('dataset', () => {
  const dataset = async (...args: string[]) => {
    rmSync(join(folder, 'set.jsonl'), { force: true });
    const output = await run(datasetCommand(), ...FROM, '--out', join(folder, 'set.jsonl'), '--json', ...args);
    if (output.error) throw output.error;
    return { ...expectPublished<DatasetOutput>('dataset', output.stdout), ...output };
  };
  const lines = () => readFileSync(join(folder, 'set.jsonl'), 'utf8').split('\n').filter(Boolean);

  test('writes the original lines of the selected traces, which replay', async () => {
    const all = await dataset();
    const captures = PROCESSED_LINES.filter((line) => lines().includes(line));
    expect(all).toMatchObject({ captures: captures.length, missing: [], code: 0 });
    expect(lines().toSorted()).toEqual(captures.toSorted());
    const failing = expectPublished<WorstOutput>('worst', (await run(worstCommand(), ...FROM, '--json')).stdout).worst;
    const scorers = [...new Set(failing.flatMap((one) => one.failing.map(({ scorer }) => scorer)))];
    expect((await dataset('--scorer', ...scorers)).captures).toBe(failing.length);
    const dry = ['--url', 'http://127.0.0.1:9', '--dry-run'];
    const { stdout } = await run(replayCommand(), join(folder, 'set.jsonl'), ...dry);
    expect(stdout).toMatch(new RegExp(`requests: +${failing.length}$`, 'm'));
  });

  test('selects by tag, by MLflow’s filter and by value', async () => {
    const key = `s3_file_key=${PROCESSED_KEY}`;
    const all = (await dataset('--tag', key)).captures;
    expect((await dataset('--tag', key, 'sagemaker_variant_name=AllTraffic')).captures).toBe(all);
    const passing = (await dataset('--scorer', 'safety=yes', '--filter', "tag.status_code = '200'")).captures;
    expect(passing).toBeGreaterThan(0);
    expect(passing).toBeLessThan(all);
    expect(await dataset('--limit', '1')).toMatchObject({ captures: 1, more: true });
    await expect(dataset('--tag', 'status_code=999')).rejects.toThrow('No trace meets the conditions');
    await expect(dataset('--tag', 'a')).rejects.toThrow('<name>=<value>');
    await expect(dataset('--scorer', 'safty')).rejects.toThrow('did you mean safety');
  });

  test('fills an evaluation dataset of MLflow, and a second time adds nothing', async () => {
    const first = await dataset('--name', 'failures');
    const again = await dataset('--name', 'failures');
    const { id = '', inserted = 0 } = first.dataset ?? {};
    expect(inserted).toBeGreaterThan(1);
    expect(again.dataset).toEqual({ id, name: 'failures', inserted: 0, updated: first.captures });
    const reply = await mlflow().api<{ records: string }>(`3.0/mlflow/datasets/${id}/records`);
    const records = JSON.parse(reply.records) as Record<string, unknown>[];
    expect(records).toHaveLength(inserted);
    for (const record of records) {
      expect(Object.keys(record.inputs as object)).not.toEqual([]);
      expect(record).toMatchObject({ source_type: 'TRACE', source_id: expect.stringMatching(/^tr-/) });
      const capture = `s3://${pipeline.outputs.captureBucket}/${PROCESSED_KEY}`;
      expect(record.tags).toMatchObject({ endpoint: ENDPOINT, capture });
    }
    await expect(dataset('--name', `it's`)).rejects.toThrow('a name without quotes');
  });

  test('names the traces whose captures are gone', async () => {
    const key = `${HOUR}/deleted.jsonl`;
    const [line = ''] = PROCESSED_LINES;
    await pipeline.process(key, [line.replaceAll('processed', 'deleted')]);
    const { s3 } = environment.clients;
    await s3.send(new DeleteObjectCommand({ Bucket: pipeline.outputs.captureBucket, Key: key }));
    const found = await dataset('--tag', `s3_file_key=${key}`, `sagemaker_variant_name=AllTraffic`);
    const missing = [{ reason: expect.stringMatching(/deleted\.jsonl is gone$/) }];
    expect(found).toMatchObject({ captures: 0, code: 1, missing });
    expect(found.stderr).toContain(`${found.missing[0]?.traceId}: s3://`);
  });
});

describe('open', () => {
  const url = async (...args: string[]): Promise<string> => {
    const { stdout, error } = await run(openCommand(), '--json', ...args);
    if (error) throw error;
    return expectPublished<OpenOutput>('open', stdout).url;
  };

  test('prints the page of the experiment and of a trace', async () => {
    const traces = await url();
    expect(traces).toMatch(new RegExp(`^${environment.mlflowUrl}/#/experiments/\\d+/traces\\?`));
    expect((await run(openCommand())).stdout).toBe(`${traces}\n`);
    const id = `tr-${'0'.repeat(32)}`;
    expect(await url(id)).toContain(`selectedEvaluationId=${id}`);
    expect(await url(id, '--stack', PREFIX)).toBe(await url(id));
  });

  test('asks AWS for a login to a managed MLflow, and says that it is one', async () => {
    const arn = MANAGED_ARN;
    const inputs: unknown[] = [];
    const sageMaker = await serve(async (request, response) => {
      inputs.push([request.headers['x-amz-target'], await json(request)]);
      response.end(JSON.stringify({ AuthorizedUrl: 'https://mlflow.example/auth?authToken=t' }));
    });
    const { AWS_ACCESS_KEY_ID: accessKeyId = '', AWS_SECRET_ACCESS_KEY: secretAccessKey = '' } =
      environment.ministack.env;
    const credentials = { accessKeyId, secretAccessKey };
    const managed = await startSageMakerMlflowDouble({ upstream: environment.mlflowUrl, arn, credentials });
    // No stack is named, so that MLflow and the experiment are those of the environment.
    const own = { AWS_ENDPOINT_URL: sageMaker.url, SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT: managed.url, STACK_PREFIX: '' };
    const shell = { ...process.env, ...own } as Record<string, string>;
    const { stdout, stderr, error } = await withVariables(shell, () => run(openCommand(), '--tracking-uri', arn));
    await Promise.all([sageMaker.close(), managed.stop()]);
    expect(error).toBeUndefined();
    const id = await mlflow().experimentId(ENDPOINT);
    expect(stdout).toBe(`https://mlflow.example/auth?authToken=t#/experiments/${id}/traces?startTimeLabel=ALL\n`);
    expect(stderr).toMatch(/login: it works once, within 5 minutes/);
    expect(stderr).not.toContain('authToken');
    expect(inputs).toEqual([['SageMaker.CreatePresignedMlflowAppUrl', { Arn: arn, ExpiresInSeconds: 300 }]]);
  });

  test('says that an emulator has no console, and names the nearest run', async () => {
    await expect(url('--dashboard')).rejects.toThrow('An emulated AWS has no console');
    await expect(url('no-such-run')).rejects.toThrow('no-such-run');
    await expect(url('tr-x', '--dashboard')).rejects.toThrow('Only one page');
  });
});
