/** Tests of the commands about what a run left: `show`, `runs`, `retry`, `stop`. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import processCommand from '../../../bin/commands/process.ts';
import retryCommand from '../../../bin/commands/retry.ts';
import runsCommand from '../../../bin/commands/runs.ts';
import showCommand from '../../../bin/commands/show.ts';
import stopCommand from '../../../bin/commands/stop.ts';
import { expectPublished } from '../../helpers/published-json.ts';
import { temporaryFolder } from '../../helpers/temporary-folder.ts';
import { environment, HOUR, PROCESSED_LINES, pipeline, processed, putChats, run } from './stack.ts';

const folder = temporaryFolder('operate-');

describe('a run that failed and was held back', () => {
  const name = 'unfinished';

  beforeAll(async () => {
    await pipeline.disableRule();
    const key = await putChats('unfinished', 3);
    // The budget has room for none of the calls.
    const { code } = await run(processCommand(), key, '--budget', '0.0001', '--name', name);
    expect(code).toBe(0);
  });
  afterAll(() => pipeline.enableRule());

  test('show says what was held back and by what, and the retry to start', async () => {
    const { stdout } = await run(showCommand(), name);
    expect(stdout).toMatch(/^── Held ──\n\d+ verdicts by the budget: the run's \$0\.0001 or EVALUATION_BUDGET_USD$/m);
    expect(stdout).toContain(`  inference-monitor retry ${name} --what held`);
  });

  test('retry finds out what there is to retry, and follows it', async () => {
    const { stdout, code } = await run(retryCommand(), name, '--name', 'unfinished-again', '--json');
    expect(code).toBe(0);
    const [again] = JSON.parse(stdout).runs;
    expect(again).toMatchObject({ run: 'unfinished-again', asked: `held of ${name}`, status: 'succeeded' });
    expect(again.figures.verdicts).toMatchObject({ heldByBudget: 0, failed: 0 });
    expect(again.figures.verdicts.newVerdicts).toBeGreaterThan(0);
  });

  test('a retry is refused if the run has none of that left', async () => {
    const { error } = await run(retryCommand(), name, '--what', 'quarantined');
    expect(error).toMatchObject({ name: 'NothingToRetry', message: expect.stringContaining('--what held') });
  });
});

test('a run that planned nothing is started again by its input', async () => {
  const key = `${HOUR}/late.jsonl`;
  const { status } = await pipeline.ended(await pipeline.start(pipeline.event(key, { evaluate: false }), 'too-early'));
  expect(status).toBe('FAILED');
  expect((await run(showCommand(), 'too-early')).stdout).toContain('inference-monitor retry too-early --what failed');
  const { runs } = JSON.parse((await run(runsCommand(), '--json')).stdout);
  expect(runs.find((one: { run: string }) => one.run === 'too-early')?.asked).toContain(key);
  await pipeline.disableRule();
  await putChats('late', 1);
  const { stdout, code } = await run(retryCommand(), 'too-early', '--json');
  await pipeline.enableRule();
  expect(code).toBe(0);
  expect(JSON.parse(stdout).runs[0]).toMatchObject({ figures: { lines: { planned: 1, traced: 1 } } });
});

test('runs lists the newest first with their figures, and as a few lines each where the table does not fit', async () => {
  const { stdout } = await run(runsCommand(), '--json');
  const { runs } = JSON.parse(stdout);
  expect(runs.at(-1)).toMatchObject({
    run: processed.name,
    status: 'succeeded',
    asked: '1 capture file',
    figures: { lines: 6, traced: 5, quarantined: 1 },
  });
  const starts = runs.map(({ startedAt }: { startedAt: string }) => startedAt);
  expect(starts).toEqual(starts.toSorted().reverse());
  const first = await run(runsCommand(), '--json', '--limit', '1');
  expect(JSON.parse(first.stdout)).toMatchObject({ runs: [expect.anything()], more: true });
  expect(first.stderr).toContain('there are more');
  expect((await run(runsCommand(), '--status', 'timed out')).stdout).toContain('There are no such runs.\n');
  expect((await run(runsCommand(), '--to', '2026-01-01')).stdout).toContain('There are no such runs.\n');
  expect((await run(runsCommand(), '--replays')).stdout).toContain('There are no such runs.\n');
});

describe('show --out', () => {
  test('writes the lines as they were captured, and never onto the terminal', async () => {
    const out = join(folder, 'lines.jsonl');
    const { stdout, code } = await run(showCommand(), processed.name, '--out', out);
    expect(code).toBe(0);
    expect(stdout).toContain(`1 line written to ${out}.`);
    expect(readFileSync(out, 'utf8')).toBe(`${PROCESSED_LINES.at(-1)}\n`);
    const again = await run(showCommand(), processed.name, '--out', out);
    expect(again.error?.name).toBe('FileExists');
  });

  test('names the reasons that there are, for one that there is not', async () => {
    const out = join(folder, 'other.jsonl');
    const { error } = await run(showCommand(), processed.name, '--out', out, '--reason', 'NotJsn');
    expect(error).toMatchObject({ name: 'UnknownName', message: expect.stringContaining('did you mean NotJson?') });
  });
});

describe('stop', () => {
  const name = 'stopped';
  beforeAll(() => pipeline.disableRule());
  afterAll(() => pipeline.enableRule());

  test('stops a run, says what is left, and show adds up its receipts; a retry completes it', async () => {
    const key = await putChats('stopped', 4);
    // The judge does not answer while the run is looked at.
    environment.judge.behave({ delayMs: 6_000 });
    const started = await run(processCommand(), key, '--name', name, '--detach', '--json');
    expect(expectPublished('process', started.stdout)).toMatchObject({ runs: [{ run: name, status: 'running' }] });
    await pipeline.until('the plan', async () => {
      const { stdout } = await run(showCommand(), name, '--json');
      const [one] = JSON.parse(stdout).runs;
      expect(one).toMatchObject({ status: 'running', isFinal: false });
      return one.figures?.lines.planned === 4 ? one : undefined;
    });
    expect((await run(retryCommand(), name)).error?.name).toBe('RunGoesOn');
    const { stdout } = await run(stopCommand(), name);
    expect(stdout).toContain('The run is stopped.');
    expect(stdout).toContain('0 of 4 planned lines have an outcome.');
    expect(stdout).toContain(`inference-monitor retry ${name} --what failed`);
    const shown = await run(showCommand(), name);
    expect(shown.stdout).toContain('── stopped: stopped ──');
    expect(shown.stdout).toMatch(/stopped\.jsonl:1, 4 lines \(chunk 0, log\): NoReceipt: /);
    // Until here the stopped function must not come to its end: the retry would find nothing to do.
    const retried = await run(retryCommand(), name, '--what', 'failed', '--json');
    environment.judge.behave({});
    expect(retried.error).toBeUndefined();
    expect(JSON.parse(retried.stdout).runs[0]).toMatchObject({
      status: 'succeeded',
      figures: { lines: { planned: 4, traced: 4, lost: 0 } },
    });
    expect((await run(stopCommand(), name)).stdout).toContain('has already ended: stopped (RunStopped)');
    const printed = await run(stopCommand(), name, '--json');
    expect(JSON.parse(printed.stdout)).toMatchObject({ kind: 'run', run: name, status: 'ABORTED', openBatchJobs: [] });
  });
});
