/** Tests of the replay command whose judge or MLflow server fails after the replay: nothing else is lost. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunInMlflow } from '../../helpers/mlflow-api.ts';
import { chatLine, ReplayFolder, type RunningCli, readLines, startCli } from '../../helpers/replay.ts';
import { all } from '../../integration/replay-evaluation/servers.ts';

let folder: ReplayFolder;
let out: string;

beforeEach(() => {
  folder = new ReplayFolder();
  out = join(folder.path, 'out');
});

const replay = (run: string, count: number, ...flags: string[]) => start(run, count, ...flags).done;

const environment = (): Record<string, string> => ({
  MLFLOW_TRACKING_URI: all.mlflowProxy.url,
  MLFLOW_EXPERIMENT_NAME: 'my-endpoint',
  JUDGE_BASE_URL: `${all.judgeProxy.url}/v1`,
  JUDGE_API_KEY: 'k',
  BEDROCK_MODEL_ID: 'openai:/stand-in',
  JUDGE_PRICES: '{"openai:/stand-in":{"input":1,"output":5}}',
  DOTENV_CONFIG_PATH: join(folder.path, 'none'),
});

function start(run: string, count: number, ...flags: string[]): RunningCli {
  const lines = Array.from({ length: count }, (_, i) => chatLine(`e${i}`, 0, `question number ${i} of parcels`, 'No.'));
  const file = folder.write('captures/a.jsonl', lines);
  const args = ['replay', join(file, '..'), '--url', all.endpoint.url, '--quiet', '--run', run, '-o', out, ...flags];
  return startCli(args, environment());
}

const comparison = () =>
  JSON.parse(readFileSync(join(out, 'compare.json'), 'utf8')) as {
    quality: { compared: number; judged: Record<string, number> };
    judgeUsd: number;
    judgeFailure?: { name: string; message: string };
  };

const runInMlflow = async (name: string): Promise<RunInMlflow | undefined> => (await all.runsOf(name))[0];
describe('a replay command whose judge or MLflow fails', () => {
  async function until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise((resolve) => setTimeout(resolve, 20));
  }

  const PAIRS = 60;

  /** Presses Ctrl-C while the judge waits with its thirtieth answer. */
  async function stoppedWhileJudging(begin: () => RunningCli) {
    const { promise, resolve } = Promise.withResolvers<void>();
    all.judgeProxy.rule((_, ordinal) =>
      ordinal < 30 ? undefined : { kind: 'after', work: () => promise, next: { kind: 'pass' } },
    );
    const running = begin();
    await until(() => all.judgeProxy.requests.length > 30);
    process.kill(running.pid, 'SIGINT');
    await until(() => running.stderr().includes('Ctrl-C'));
    resolve();
    const result = await running.done;
    expect(result).toMatchObject({
      code: 130,
      stderr: expect.stringContaining('Not all pairs are judged: JudgingStopped: '),
    });
    return result;
  }

  /** Pairs in flight are completed. @param questions about each */
  function expectSomeJudged(judged: number, questions: number): void {
    expect(judged).toBeGreaterThanOrEqual(15);
    expect(judged).toBeLessThan(PAIRS);
    expect(all.judgeProxy.requests).toHaveLength(questions * judged);
  }

  test('Ctrl-C while judging: asks about no further pair, and completes everything else', async () => {
    const { stdout } = await stoppedWhileJudging(() => start('judge-stopped', PAIRS, '--judge', '--mlflow'));
    expect(stdout).toContain(`succeeded: ${PAIRS}`);
    const { quality, judgeFailure } = comparison();
    expect(judgeFailure?.name).toBe('JudgingStopped');
    const judged = readLines<{ verdict: string }>(join(out, 'judged.jsonl'));
    expect(quality.judged.better).toBe(judged.length);
    // In both orders.
    expectSomeJudged(judged.length, 2);
    expect(readFileSync(join(out, 'report.html'), 'utf8')).toContain('Not all pairs are judged');
    const run = await runInMlflow('judge-stopped');
    expect(run?.info.status).toBe('KILLED');
    expect(await all.filesOf(run)).toEqual(expect.arrayContaining(['compare.json', 'judged.jsonl', 'report.html']));
  });

  test('Ctrl-C during compare --judge: keeps the verdicts so far and writes the comparison', async () => {
    const before = join(folder.path, 'before');
    expect((await replay('before', PAIRS, '--compare', '-o', before)).code).toBe(0);
    const other = ['--set', 'messages=[{"role":"user","content":"Else?"}]'];
    expect((await replay('after', PAIRS, '--compare', ...other)).code).toBe(0);
    const compare = ['compare', before, out, '--judge', '--threshold', 'judged_worse:99'];
    await stoppedWhileJudging(() => startCli(compare, environment()));
    const found = JSON.parse(readFileSync(join(out, 'comparison.json'), 'utf8')) as {
      quality: { judged: Record<string, number> };
    };
    expect(found).toMatchObject({ judgeFailure: { name: 'JudgingStopped' }, paired: { requests: PAIRS } });
    const sum = Object.values(found.quality.judged).reduce((total, count) => total + count, 0);
    // One more is about harm in the new reply.
    expectSomeJudged(sum, 3);
    expect(readFileSync(join(out, 'comparison.html'), 'utf8')).toContain('Not all pairs are judged');
  });

  test('Ctrl-C while the judge does not answer: waits a few seconds, and keeps the verdicts so far', async () => {
    all.judgeProxy.rule((_, ordinal) => (ordinal < 10 ? undefined : { kind: 'slowBody' }));
    const running = start('judge-silent', 12, '--judge');
    await until(() => all.judgeProxy.requests.length > 12);
    process.kill(running.pid, 'SIGINT');
    const { code, stdout } = await running.done;
    expect(code).toBe(130);
    expect(stdout).toContain('succeeded: 12');
    const { quality, judgeFailure } = comparison();
    expect(judgeFailure?.name).toBe('JudgingStopped');
    expect(quality.judged.better).toBe(readLines(join(out, 'judged.jsonl')).length);
    expect(existsSync(join(out, 'report.html'))).toBe(true);
  });

  test.each([
    ['traces', '/v1/traces'],
    ['the run', '/api/2.0/mlflow/runs/create'],
  ])('MLflow denies %s: writes the files, and ends the MLflow run as failed', async (what, denied) => {
    all.mlflowProxy.rule(({ path }) => (path === denied ? { kind: 'reply', status: 403, body: '{}' } : undefined));
    const name = `denied-${what.replace(' ', '-')}`;
    const { code, stderr } = await replay(name, 5, '--compare', '--mlflow');
    expect(code).toBe(2);
    expect(stderr).toMatch(/^Not all of the replay is in MLflow: MlflowAccessDenied: /);
    expect(comparison().quality.compared).toBe(5);
    expect(existsSync(join(out, 'report.html'))).toBe(true);
    // The exchanges are only for MLflow.
    expect(existsSync(join(out, 'exchanges.spool.jsonl'))).toBe(false);
    const run = await runInMlflow(name);
    expect(run?.info.status).toBe(what === 'traces' ? 'FAILED' : undefined);
    if (run)
      expect(await all.filesOf(run)).toEqual(expect.arrayContaining(['compare.json', 'report.html', 'replay.json']));
  });

  test('lists refused traces with the reason', async () => {
    all.mlflowProxy.rule(({ path, body }) =>
      path === '/v1/traces' && body.includes('question number 3 of')
        ? { kind: 'reply', status: 400, body: '{"error_code":"INVALID_PARAMETER_VALUE","message":"not this one"}' }
        : undefined,
    );
    const { code, stdout, stderr } = await replay('refused', 8, '--mlflow');
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toContain('MLflow traces: 7');
    expect(stdout).toContain('Traces that MLflow refused: 1, listed in refused-traces.jsonl');
    expect(readLines(join(out, 'refused-traces.jsonl'))).toEqual([
      {
        trace_id: expect.stringMatching(/^tr-[0-9a-f]{32}$/),
        event_id: 'e3',
        request_id: expect.any(String),
        file: expect.stringContaining('a.jsonl'),
        line: 4,
        reason: {
          name: 'MlflowRefused',
          message: expect.any(String),
          words: expect.stringContaining('not this one'),
        },
      },
    ]);
    expect(await all.filesOf(await runInMlflow('refused'))).toContain('refused-traces.jsonl');
  });

  test('uploads only result files of the directory to MLflow', async () => {
    mkdirSync(out);
    for (const name of ['.env', 'mine.jsonl', 'captures.json']) writeFileSync(join(out, name), 'SECRET=1');
    expect((await replay('beside-others', 2, '--compare', '--mlflow')).code).toBe(0);
    expect(await all.filesOf(await runInMlflow('beside-others'))).toEqual([
      'compare.json',
      'inputs.json',
      'profile_export.jsonl',
      'profile_export_aiperf.csv',
      'profile_export_aiperf.json',
      'replay.json',
      'replies.jsonl',
      'report.html',
    ]);
    expect(readFileSync(join(out, '.env'), 'utf8')).toBe('SECRET=1');
  });
});
