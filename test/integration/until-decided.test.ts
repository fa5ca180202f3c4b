/** Replays that end as soon as their gate is decided, between servers whose difference is known. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type StandInEndpoint, startStandInEndpoint } from '../../local/stand-in-endpoint/server.ts';
import { StandInJudge } from '../../local/stand-in-judge/server.ts';
import type { DecidedReplay } from '../../src/replay/gate/live-gate.ts';
import { runHere } from '../helpers/command-here.ts';
import { chatLine, ReplayFolder, readLines } from '../helpers/replay.ts';

const COUNT = 400;
const GOOD = 'Your parcel arrives in Rotterdam tomorrow.';

let folder: ReplayFolder;
let captures: string;
/** One answers well, the other badly to a quarter of the requests. */
let good: StandInEndpoint;
let mixed: StandInEndpoint;
const before = (): string => join(folder.path, 'before');

/** The number in the prompt. */
const numberIn = (prompt: string): number => Number(/#(\d+)/.exec(prompt)?.[1]);

beforeAll(async () => {
  folder = new ReplayFolder();
  const lines = Array.from({ length: COUNT }, (_, i) =>
    chatLine(`e${i}`, i, `[#${i}] When does my parcel arrive in Rotterdam?`),
  );
  captures = folder.write('captures.jsonl', lines);
  const faulty = lines.map((line, i) =>
    i % 10 === 3 ? line.replace('Rotterdam?', 'Rotterdam? [[status 500]]') : line,
  );
  folder.write('faulty.jsonl', faulty);
  good = await startStandInEndpoint({ latencyMs: 1, answer: () => GOOD });
  mixed = await startStandInEndpoint({
    latencyMs: 1,
    answer: ({ prompt }) => (numberIn(prompt) % 4 === 1 ? 'No idea.' : GOOD),
  });
  const base = await runHere([
    'replay',
    captures,
    '--url',
    good.url,
    '--concurrency',
    '4',
    '--compare',
    '--quiet',
    '--no-report',
    '-o',
    before(),
  ]);
  expect(base.code).toBe(0);
});
afterAll(async () => {
  await good?.close();
  await mixed?.close();
  folder?.delete();
});

const untilDecided = (name: string, url: string, source: string, flags: readonly string[], env = {}) =>
  runHere(
    [
      'replay',
      source,
      '--url',
      url,
      '--concurrency',
      '4',
      '--quiet',
      '-o',
      join(folder.path, name),
      '--until-decided',
      '--baseline',
      before(),
      ...flags,
    ],
    env,
  );

const resultOf = (name: string): DecidedReplay['comparison'] & Omit<DecidedReplay, 'comparison'> =>
  JSON.parse(readFileSync(join(folder.path, name, 'comparison.json'), 'utf8'));

test('ends early if the difference is clear, and says so', async () => {
  const faulty = join(folder.path, 'faulty.jsonl');
  const flags = ['--threshold', 'error_rate:1', '--threshold', 'new_refusals:10'];
  const { code, stdout, stderr } = await untilDecided('clear', good.url, faulty, flags);
  expect(code).toBe(1);
  expect(stderr).toMatch(/before has 400 of the requests\./);
  expect(stdout).toMatch(/^FAILED {6}error_rate:1: /m);
  expect(stdout).toMatch(/^PASSED {6}new_refusals:10: /m);
  expect(stdout).toMatch(/Sending ended early, with \d+ requests unsent: all thresholds of the gate are decided\./);
  const { gate, untilDecided: taken, notes } = resultOf('clear');
  expect(gate).toMatchObject({ outcome: 'failed', exitCode: 1 });
  expect(taken).toMatchObject({ endedBy: 'all thresholds decided' });
  expect(taken.requests).toBe(taken.looks.at(-1)?.pairs);
  expect(taken.sent).toBeLessThan(COUNT);
  expect(stdout).toContain(
    `Decided, at look ${taken.looks.length}, on the first ${taken.requests} requests. Sent: ${taken.sent},`,
  );
  expect(notes.join()).toContain('ended before it had sent everything: all thresholds of the gate are decided');
  // No request was canceled: those in flight were awaited.
  const records = readLines<{ error?: { code: number } }>(join(folder.path, 'clear', 'profile_export.jsonl'));
  expect(records).toHaveLength(taken.sent);
  expect(records.every(({ error }) => !error || error.code === 500)).toBe(true);
  const facts = JSON.parse(readFileSync(join(folder.path, 'clear', 'replay.json'), 'utf8'));
  expect(facts).toMatchObject({
    was_cancelled: false,
    incomplete: null,
    ended_early: expect.stringContaining('decided'),
  });
  expect(existsSync(join(folder.path, 'clear', 'comparison.html'))).toBe(true);
});

test('ends early if nothing is worse', async () => {
  const junit = join(folder.path, 'gate.xml');
  const { code, stdout } = await untilDecided('equal', good.url, captures, [
    '--threshold',
    'newly_failing:5',
    '--junit',
    junit,
  ]);
  expect(code).toBe(0);
  expect(stdout).toContain('Gate: PASSED');
  expect(resultOf('equal').untilDecided.sent).toBeLessThan(COUNT);
  expect(readFileSync(junit, 'utf8')).toContain('newly_failing:5');
});

test('goes to the end of the captures if it cannot tell', async () => {
  const { code, stdout } = await untilDecided('unclear', good.url, captures, [
    '--threshold',
    'newly_failing:0.2',
    '--no-report',
  ]);
  expect(code).toBe(3);
  expect(stdout).toMatch(/^CANNOT TELL newly_failing:0.2: /m);
  expect(stdout).toContain('Not all decided by the end of the captures');
  expect(resultOf('unclear').untilDecided).toMatchObject({
    sent: COUNT,
    requests: COUNT,
    endedBy: 'end of the captures',
  });
});

test('asks the judge about the pairs up to the look that decides', async () => {
  const judge = new StandInJudge();
  await judge.listen();
  try {
    const flags = [
      '--judge',
      '--judge-model',
      'openai:/test',
      '--judge-budget-usd',
      '0',
      '--threshold',
      'judged_worse:5',
    ];
    const env = {
      JUDGE_BASE_URL: `${judge.url}/v1`,
      JUDGE_API_KEY: 'test',
      DOTENV_CONFIG_PATH: join(folder.path, 'none'),
    };
    const { code, stdout } = await untilDecided('judged', mixed.url, captures, [...flags, '--no-report'], env);
    expect(stdout).toMatch(/^FAILED {6}judged_worse:5: /m);
    expect(code).toBe(1);
    const { gate, quality, untilDecided: taken } = resultOf('judged');
    const worse = Array.from({ length: taken.requests }, (_, i) => i).filter((i) => i % 4 === 1).length;
    // Nothing is sent beyond a look while the judge is asked.
    expect(taken.sent).toBe(taken.requests);
    expect(gate.thresholds[0]).toMatchObject({ open: 0, seen: taken.requests });
    expect(quality?.judged).toMatchObject({ worse, failed: 0 });
    expect(quality?.regressions['judged-worse']).toBe(worse);
  } finally {
    await judge.close();
  }
});

test('refuses what cannot work before anything is sent', async () => {
  const threshold = ['--threshold', 'newly_failing:5'];
  const url = ['--url', good.url, '--quiet', '-o', join(folder.path, 'none')];
  const others = folder.write('others.jsonl', [chatLine('x1', 0, 'hello')]);
  const plain = join(folder.path, 'plain');
  expect(
    (await runHere(['replay', others, ...url.slice(0, 3), '--concurrency', '1', '--no-report', '-o', plain])).code,
  ).toBe(0);
  const sent = good.arrivals.count;
  const cases: [string[], RegExp][] = [
    [[captures, '--until-decided', ...threshold], /--until-decided needs an earlier replay/],
    [[captures, '--until-decided', '--baseline', before()], /--until-decided needs thresholds/],
    [[captures, '--baseline', before()], /--baseline has no effect without --until-decided/],
    [[captures, '--until-decided', '--baseline', before(), '--threshold', 'judged_worse:5'], /needs the judge/],
    [[captures, '--until-decided', '--baseline', before(), '--threshold', 'nonsense:5'], /InvalidThreshold/],
    [[captures, '--until-decided', '--baseline', join(folder.path, 'nothing'), ...threshold], /NotAReplay/],
    [[captures, '--until-decided', '--baseline', plain, ...threshold], /OtherCaptures: .*got: 0 of 400 requests/],
    [[others, '--until-decided', '--baseline', plain, '--threshold', 'regressed:5'], /BaselineWithoutReplies/],
    [[captures, '--until-decided', '--baseline', before(), ...threshold, '-o', before()], /would replace the baseline/],
  ];
  for (const [flags, message] of cases) {
    const found = await runHere(['replay', ...flags.slice(0, 1), ...url, '--concurrency', '4', ...flags.slice(1)]);
    expect(found).toMatchObject({ code: 2, stderr: expect.stringMatching(message) });
  }
  expect(good.arrivals.count).toBe(sent);
  expect(existsSync(join(before(), 'profile_export.jsonl'))).toBe(true);
});
