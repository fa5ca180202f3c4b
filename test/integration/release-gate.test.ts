/** The command `compare` as a release gate, on result folders: its three outcomes as exit codes, text, JSON and page. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PlanOutput } from '../../bin/commands/compare-plan.ts';
import { Random } from '../../src/core/values/random.ts';
import type { RunsComparison } from '../../src/replay/compare/compare-runs.ts';
import type { GateResult } from '../../src/replay/gate/types.ts';
import { StandInJudge } from '../doubles/faulty-judge/server.ts';
import { runHere } from '../helpers/command-here.ts';
import { tableOf } from '../helpers/page-reader.ts';
import { expectPublished } from '../helpers/published-json.ts';
import { ReplayFolder, runCli } from '../helpers/replay.ts';
import { numbered, type RequestSpec, writeRun } from '../helpers/result-folder.ts';
import { serve } from '../helpers/serve.ts';

let folder: ReplayFolder;
beforeEach(() => {
  folder = new ReplayFolder();
});

const run = (name: string, count: number, one: (i: number) => Omit<RequestSpec, 'line'>): string =>
  writeRun(join(folder.path, name), numbered(count, one));

const thresholds = (...texts: string[]) => texts.flatMap((text) => ['--threshold', text]);

const gateOf = (directory: string): GateResult =>
  (JSON.parse(readFileSync(join(directory, 'comparison.json'), 'utf8')) as { gate: GateResult }).gate;

/** Latencies without a tie. */
const ms = (i: number) => 100 + ((i * 37) % 400) / 4;

test('exits with 0, 1 or 3, and says why', async () => {
  const before = run('before', 400, (i) => ({ ms: ms(i) }));
  const same = run('same', 400, (i) => ({ ms: ms(i) * (i % 2 ? 1.01 : 0.99) }));
  const gates = thresholds('request_latency:p95:10%', 'error_rate:2', 'newly_failing:0', 'new_refusals:3');
  const passed = await runCli(['compare', before, same, ...gates]);
  expect(passed).toMatchObject({ code: 0, stderr: '' });
  expect(passed.stdout.match(/^PASSED/gm)).toHaveLength(4);
  expect(passed.stdout).toContain('Gate: PASSED');
  expect(passed.stdout).toMatch(/Gate: PASSED\ncontent: not judged \(/);
  expect(gateOf(same)).toMatchObject({ outcome: 'passed', exitCode: 0, content: 'not judged' });
  const page = readFileSync(join(same, 'comparison.html'), 'utf8');
  expect(page).toContain('Gate: passed<br>');

  const slower = run('slower', 400, (i) => ({ ms: ms(i) * 1.5, ok: i !== 7 }));
  const failed = await runHere(['compare', before, slower, ...gates, '--json']);
  expect(failed.code).toBe(1);
  const { gate } = (await expectPublished('compare', failed.stdout)) as { gate: GateResult };
  expect(gate.thresholds.map(({ outcome }) => outcome)).toEqual(['failed', 'passed', 'failed', 'passed']);
  expect(gate.thresholds[0]).toMatchObject({ worse: expect.closeTo(50, 0), bound: 10, unit: '%', seen: 400, of: 400 });
  expect(gate).toEqual(gateOf(slower));

  // None of 400 is too few to exclude 0.5%.
  const strict = await runHere(['compare', before, same, ...gates, ...thresholds('newly_failing:0.5'), '--no-report']);
  expect(strict.code).toBe(3);
  expect(strict.stdout).toMatch(
    /^CANNOT TELL newly_failing:0\.5: .* About 200 more requests would probably decide it\.$/m,
  );
  expect(strict.stdout).toContain('Gate: CANNOT TELL');
});

test('compares several runs of each model', async () => {
  const random = new Random(1);
  const runs = ['a-1', 'a-2', 'b-1', 'b-2'].map((name, i) =>
    run(name, 400, (at) => ({ ms: ms(at) * (1 + 0.004 * (i % 2)) * (0.99 + 0.02 * random.next()) })),
  );
  const compare = (given: readonly string[], ...flags: string[]) =>
    runHere(['compare', ...given, ...flags, ...thresholds('request_latency:p50:20%'), '--no-report']);
  const found = await compare(runs.slice(0, 2), '--against', ...runs.slice(2), '--json');
  expect(found).toMatchObject({ code: 0, stderr: '' });
  const { gate, notes } = (await expectPublished('compare', found.stdout)) as {
    gate: GateResult;
    notes: string[];
  };
  expect(gate).toMatchObject({ runs: 2, thresholds: [{ seen: 800, of: 800 }, { threshold: 'newly_failing:5' }] });
  expect(notes[0]).toContain('of all 2 pairs of runs, all else is of the first');
  for (const given of [runs.slice(0, 1), runs.slice(0, 3)]) expect((await compare(given)).code).toBe(2);
  expect((await compare(runs.slice(0, 2), '--against', runs[2] ?? '')).code).toBe(2);
  // The same run twice would seem to vary by nothing.
  const twice = await compare([runs[0] ?? '', runs[0] ?? ''], '--against', ...runs.slice(2));
  expect(twice).toMatchObject({ code: 2, stderr: expect.stringContaining('as many different ones of each model') });
});

test('the page has a row for each statistic with enough requests, and the failures', async () => {
  const [before, after] = [run('before', 57, (i) => ({ ms: ms(i) })), run('after', 57, (i) => ({ ms: ms(i) * 1.4 }))];
  expect((await runHere(['compare', before, after])).code).toBe(0);
  const rows = tableOf(readFileSync(join(after, 'comparison.html'), 'utf8'), 'Differences');
  expect([...rows.keys()]).toEqual([
    ...['Request latency (ms)', 'Effective latency (ms)'].flatMap((name) => [`${name} p50`, `${name} p90`]),
    'Failed (%)',
  ]);
});

test('exits with 2 if nothing could be compared, and for a threshold that none could pass', async () => {
  const before = run('before', 2, () => ({}));
  expect((await runHere(['compare', before, folder.path, ...thresholds('regressed:1')])).code).toBe(2);
  for (const [flags, message] of [
    [thresholds('error_rate:0'), /cannot be shown to be at most 0[\s\S]*got: error_rate:0/],
    [thresholds('speed:p50:1'), /The threshold is invalid; got: speed:p50:1/],
  ] as const) {
    const refused = await runHere(['compare', before, before, ...flags]);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(message);
  }
});

test('reads a gate file, and writes JUnit XML and summaries', async () => {
  const before = run('before', 400, (i) => ({ ms: ms(i) }));
  const after = run('after', 400, (i) => ({
    ms: ms(i),
    text: i % 4 ? 'same' : 'I cannot help with that. <img src=x>',
  }));
  const file = (name: string): string => join(folder.path, name);
  const text = (name: string): string => readFileSync(file(name), 'utf8');
  writeFileSync(file('gate.yaml'), 'thresholds:\n  - error_rate:2\n  - newly_failing:0\nerrorsTogether: 2\n');
  const outputs = ['--gate', file('gate.yaml'), '--junit', file('ci/gate.xml'), '--markdown', file('gate.md')];
  const open = await runHere(['compare', before, after, ...outputs]);
  expect(open).toMatchObject({ code: 3, stderr: '' });
  expect(text('ci/gate.xml')).toContain('tests="2" failures="0" errors="1"');
  expect(text('gate.md')).toMatch(/^## ⚠️ Release gate: cannot tell\n[\s\S]*gravest 5 of 100 replies/);
  expect(text('gate.md')).toContain('I cannot help with that. &#60;img src=x&#62;\n</pre>');
  expect(text('gate.md')).toContain(join(after, 'comparison.html'));

  // Flags take precedence over the file, and their thresholds are added.
  const flags = ['--errors-together', '1', '--threshold', 'new_refusals:10', '--no-report'];
  const failed = await runHere(['compare', before, after, ...outputs, ...flags]);
  expect(failed.code).toBe(1);
  const outcomes = gateOf(after).thresholds.map(({ threshold, outcome }) => [threshold, outcome]);
  const decided = ['error_rate:2 passed', 'newly_failing:0 passed', 'new_refusals:10 failed'];
  expect(outcomes.map((one) => one.join(' '))).toEqual(decided);
  expect(text('gate.md')).not.toContain('comparison.html');

  const withoutGate = await runHere(['compare', before, after, '--junit', file('x.xml')]);
  expect(withoutGate).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('no effect without --threshold or --gate'),
  });
  writeFileSync(file('gate.yaml'), 'thresholds:\n  - eror_rate:2\n');
  const misspelled = await runHere(['compare', before, after, ...outputs]);
  expect(misspelled.code).toBe(2);
  expect(misspelled.stderr).toMatch(/did you mean error_rate:2\?; where: .*gate\.yaml, line 2, column 5/);
});

test('plans how many requests a gate needs from two runs of one model, and what the judge would cost', async () => {
  const said = (i: number) => (i % 50 ? 'Tomorrow.' : 'I cannot help with that.');
  const reply = (i: number) => ({ ms: ms(i), question: 'When does my parcel arrive?', text: said(i) });
  const before = run('before', 400, reply);
  const again = run('again', 400, (i) => ({ ...reply(i + 1), ok: i !== 9 }));
  const env = { BEDROCK_MODEL_ID: 'anthropic.claude-sonnet-4-6', DOTENV_CONFIG_PATH: join(folder.path, 'none') };
  const gates = thresholds('request_latency:p50:20%', 'newly_failing:0', 'new_refusals:1', 'judged_worse:5');
  const pilot = ['compare', '--plan', before, again, ...gates];
  const found = await runHere([...pilot, '--json'], env);
  expect(found).toMatchObject({ code: 0, stderr: '' });
  const plan = (await expectPublished('compare', found.stdout)) as PlanOutput;
  const [latency, failing, refusals, worse] = plan.thresholds;
  expect(latency).toMatchObject({ pilot: '400 pairs', requests: expect.anything() });
  expect(failing).toMatchObject({ pilot: '1 of 400 pairs failed in one run only', requests: { likely: 300 } });
  expect(failing?.note).toContain('would fail');
  // Two percent of the replies are other refusals than before, without any change of the model.
  expect(refusals).toMatchObject({ requests: null, note: expect.stringContaining('No size suffices') });
  expect(worse).toMatchObject({ requests: null, note: expect.stringContaining('no judge was asked') });
  // A refusal has moved to the next request.
  expect(plan.judge).toMatchObject({ pairs: 16, usd: expect.any(Number) });

  // The verdicts of an earlier comparison of the two.
  const comparison = (await runHere(['compare', before, again, '--no-report'])).code;
  expect(comparison).toBe(0);
  const path = join(again, 'comparison.json');
  const { quality, ...rest } = JSON.parse(readFileSync(path, 'utf8')) as RunsComparison;
  const judged = { better: 0, same: 16, worse: 0, undecided: 0, failed: 0, overBudget: 0 };
  writeFileSync(path, JSON.stringify({ ...rest, quality: { ...quality, judged } }));
  const table = await runHere(pilot, env);
  expect(table.stdout).toMatch(/^judged_worse:5 +60 to \d+, about 60 +0 of 399 pairs$/m);
  expect(table.stdout).toMatch(/^new_refusals:1 +unknown +8 of 400 pairs \(No size suffices/m);
  expect(table.stdout).toMatch(/^The judge would cost: 3 pairs × \$/m);
  for (const [args, message] of [
    [['--plan'], '--plan has no effect without --threshold or --gate'],
    [[before], 'needs two replays'],
    [['--plan', before, ...gates], 'needs two replays'],
  ] as const) {
    expect(await runHere(['compare', ...args])).toMatchObject({ code: 2, stderr: expect.stringContaining(message) });
  }
});

describe('with a judge', () => {
  const asking = (url: string) => ({
    JUDGE_BASE_URL: `${url}/v1`,
    JUDGE_API_KEY: 'k',
    DOTENV_CONFIG_PATH: join(folder.path, 'none'),
  });
  const flags = ['--judge', '--judge-model', 'openai:/test', '--budget', '0', '--no-report'];
  const QUESTION = 'When does my parcel arrive in Rotterdam?';
  const GOOD = 'Your parcel arrives in Rotterdam tomorrow.';

  test('the share that it finds worse decides', async () => {
    const judge = new StandInJudge();
    await judge.listen();
    try {
      const before = run('before', 120, () => ({ question: QUESTION, text: GOOD }));
      const after = run('after', 120, (i) => ({ question: QUESTION, text: i % 4 ? GOOD : 'No idea.' }));
      const gates = thresholds('judged_worse:5', 'judged_worse:50');
      const { code, stdout, stderr } = await runHere(['compare', before, after, ...flags, ...gates], asking(judge.url));
      expect(stdout).toMatch(/^FAILED {6}judged_worse:5: worse by \+25.0%/m);
      expect(stdout).toMatch(/^PASSED {6}judged_worse:50: worse by \+25.0%/m);
      expect(code).toBe(1);
      expect(stderr).toMatch(/The judge would cost: /);
      expect(stdout).toMatch(/^TOO FEW {5}new_harm:0.5: [\s\S]*^content: judged$/m);
      // A model that endangers people fails, though no threshold asks about it.
      const bleach = run('bleach', 120, () => ({ question: QUESTION, text: 'Mix bleach and ammonia.' }));
      const harmful = await runHere(
        ['compare', before, bleach, ...flags, ...thresholds('newly_failing:5')],
        asking(judge.url),
      );
      expect(harmful.stdout).toMatch(/^FAILED {6}new_harm:0.5: worse by \+100.0%/m);
      expect(harmful.code).toBe(1);
    } finally {
      await judge.close();
    }
  });

  test('its failure leaves pairs open, and the exit code is that of the gate if there is one', async () => {
    const refusing = await serve((_, response) => {
      response.writeHead(401).end('{"error":{"message":"no"}}');
    });
    const env = asking(refusing.url);
    try {
      const before = run('before', 400, () => ({ question: QUESTION, text: GOOD }));
      const after = run('after', 400, (i) => ({ question: QUESTION, text: i % 10 ? GOOD : `${GOOD} Good day!` }));
      const compare = (...gates: string[]) =>
        runHere(['compare', before, after, ...flags, ...thresholds(...gates)], env);
      const warning = { stderr: expect.stringContaining('Not all pairs are judged: ') };
      expect(await compare()).toMatchObject({ code: 2, ...warning });
      expect(await compare('newly_failing:1')).toMatchObject({ code: 0, ...warning });
      const open = await compare('newly_failing:1', 'judged_worse:5');
      expect(open).toMatchObject({ code: 3, ...warning });
      expect(open.stdout).toMatch(/^CANNOT TELL judged_worse:5: .*40 without a verdict.*It depends on 40 pairs/m);
      // Even if all of them were worse, this is within the bound.
      expect(await compare('judged_worse:20')).toMatchObject({ code: 0, ...warning });
    } finally {
      await refusing.close();
    }
  });
});
