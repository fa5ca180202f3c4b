import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { exitCodeOf, judgePage } from '../../../bin/commands/judge.ts';
import { type JudgeFlags, type JudgeReport, judgeFiles } from '../../../bin/commands/judge-run.ts';
import { packagePath } from '../../../src/core/process/package-folder.ts';
import { pageText } from '../../../src/core/text/page.ts';
import { STAND_IN_PATH } from '../../../src/judge/judge-id.ts';
import type { BehaviorInput } from '../../doubles/faulty-judge/behavior.ts';
import { type StandInJudge, startStandInJudge } from '../../doubles/faulty-judge/server.ts';
import { expectPublished } from '../../helpers/published-json.ts';
import { runCli } from '../../helpers/replay.ts';
import { temporaryFolder } from '../../helpers/temporary-folder.ts';
import GUIDELINES from './guidelines.json' with { type: 'json' };
import { credentials } from './setup.ts';

const EXAMPLES = packagePath('examples', 'captures');
/** Ten chats, some of which fail. */
const CHATS = join(
  EXAMPLES,
  'garden-helpdesk/AllTraffic/2026/11/18/09/00-12-418-adfab239-4507-4c06-bf2f-078665fb0671.jsonl',
);

let standIn: StandInJudge;
/** As the local environment has it. */
let local: StandInJudge;
let folder: string;
const before = { ...process.env };

beforeAll(async () => {
  folder = temporaryFolder('judge-');
  standIn = await startStandInJudge();
  local = await startStandInJudge({ path: STAND_IN_PATH });
  Object.assign(process.env, {
    AWS_ENDPOINT_URL_BEDROCK_RUNTIME: standIn.url,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
  });
});
afterAll(async () => {
  process.env = before;
  await Promise.all([standIn.close(), local.close()]);
});

/** Judges with the real transport, which asks the stand-in over HTTP. */
async function judged(flags: Partial<JudgeFlags>, behavior: BehaviorInput = {}, path = CHATS): Promise<JudgeReport> {
  standIn.behave(behavior);
  standIn.forget();
  const all = { limit: 50, budget: 1, ...flags } as const;
  const report = await judgeFiles(path, all, new AbortController().signal, { AWS_REGION: 'us-east-1' });
  return expectPublished('judge', JSON.stringify(report));
}

const GUIDELINE = { no_bleach: 'The reply never says "bleach".' };

test('asks only the guideline that is given, and tells verdicts, words and dollars', async () => {
  const report = await judged({ guideline: GUIDELINE, atLeast: [{ scorer: 'no_bleach', atLeast: 0.9 }] });
  expect(report).toMatchObject({ judge: 'bedrock:/us.anthropic.claude-sonnet-5-5', captures: 10, missing: {} });
  expect(new Set(report.verdicts.map(({ scorer }) => scorer))).toEqual(new Set(['no_bleach']));
  expect(new Set(standIn.recorded.flatMap(({ asked }) => asked))).toEqual(new Set(['no_bleach']));
  const bleach = report.verdicts.find(({ line }) => line === 7);
  expect(bleach).toMatchObject({ value: 'no', passes: false, reply: expect.stringContaining('mix bleach') });
  expect(bleach?.rationale).toContain('"bleach" is in the reply');
  const [scorer] = report.scorers;
  const failed = report.verdicts.filter(({ passes }) => passes === false).length;
  expect(scorer?.passes).toMatchObject({ hits: 10 - failed, of: 10 });
  expect(report.spend.usd).toBeCloseTo(
    report.verdicts.reduce((sum, { usd }) => sum + (usd ?? Number.NaN), 0),
    10,
  );
  expect(report.spend).toMatchObject({ calls: 10, inputTokens: standIn.counts.inputTokens });
  expect(report.thresholds).toEqual([{ scorer: 'no_bleach', atLeast: 0.9, holds: false }]);
  expect(exitCodeOf(report)).toBe(1);
  expect(exitCodeOf({ ...report, thresholds: [] })).toBe(0);
});

test.each(GUIDELINES as [string, number][])(
  'of the guideline %j the stand-in has %i verdicts',
  async (sentence, verdicts) => {
    for (const judgeModel of [undefined, 'stand-in']) {
      const report = await judged({ guideline: { rule: sentence }, ...(judgeModel && { judgeModel }) });
      expect(report.scorers.map(({ passes }) => passes?.of ?? 0)).toEqual([verdicts]);
      expect(report.missing).toEqual(verdicts === 0 ? { JudgeValueNotAllowed: 10 } : {});
      const said = report.verdicts.flatMap(({ error }) => error?.message ?? []);
      expect(said.filter((text) => text.includes('"not checked by the stand-in"'))).toHaveLength(10 - verdicts);
    }
  },
);

test('gives the verdicts of the stand-in in this process as over HTTP, for nothing', async () => {
  const [real, here] = [
    await judged({ scorer: ['safety', 'fluency'] }),
    await judged({ scorer: ['safety', 'fluency'], judgeModel: 'stand-in' }),
  ];
  const words = ({ verdicts }: JudgeReport) => verdicts.map(({ usd: _, ...verdict }) => verdict);
  expect(words(here)).toEqual(words(real));
  expect([here.spend.usd, here.judge, standIn.counts.calls]).toEqual([0, 'stand-in:/rules', 0]);
});

test('never spends more than the budget, and says which verdicts are missing', async () => {
  const { spend } = await judged({ guideline: GUIDELINE });
  const budget = (spend.usd ?? 0) * 0.7;
  const report = await judged({ guideline: GUIDELINE, budget });
  expect(report.spend.usd).toBeLessThanOrEqual(budget);
  expect(report.missing.held).toBe(10 - report.verdicts.length);
  expect(report.missing.held).toBeGreaterThan(0);
  expect(exitCodeOf(report)).toBe(2);
});

test('names and counts the errors of the judge', async () => {
  const report = await judged({ guideline: GUIDELINE }, { fault: 'guardrail', faultyCalls: 3 });
  expect(report.missing).toEqual({ JudgeGuardrailIntervened: 3 });
  expect(report.scorers[0]).toMatchObject({ verdicts: 7, missing: 3, passes: { of: 7 } });
  expect(exitCodeOf(report)).toBe(2);
  expect(pageText(judgePage(report))).toContain('missing verdicts: JudgeGuardrailIntervened 3');
});

test('keeps the verdicts before a failure of the judge, and fails at once without any', async () => {
  const denied = { models: { '*': { state: 'denied' as const } } };
  await expect(judged({ guideline: GUIDELINE }, denied)).rejects.toThrow('refuses every request');
  const report = await judged({ scorer: ['safety', 'response_words'] }, denied);
  expect(report.failure?.message).toContain("You don't have access to the model");
  expect(report.missing).toEqual({ notAsked: 10 });
  expect(report.verdicts).toHaveLength(10);
  expect(exitCodeOf(report)).toBe(2);
});

test('names a damaged file of a folder, judges the others, and exits with 1', async () => {
  const files = mkdtempSync(join(folder, 'damaged-'));
  const lines = readFileSync(CHATS);
  writeFileSync(join(files, 'a.jsonl.gz'), gzipSync(lines).subarray(0, 200));
  writeFileSync(join(files, 'b.jsonl'), lines);
  const report = await judged({ guideline: GUIDELINE }, {}, files);
  expect(report).toMatchObject({ captures: 10, unreadable: [{ file: join(files, 'a.jsonl.gz') }] });
  expect(exitCodeOf(report)).toBe(1);
  expect(pageText(judgePage(report))).toContain('damaged gzip');
  await expect(judged({ guideline: GUIDELINE }, {}, join(files, 'a.jsonl.gz'))).rejects.toThrow('damaged gzip');
});

test('a threshold may be of a code scorer with a value that fails, and of no other', async () => {
  const threshold = (scorer: string) => ({ judgeModel: 'none', atLeast: [{ scorer, atLeast: 0.9 }] });
  const report = await judged(threshold('pii_detected'));
  const found = report.verdicts.filter(({ scorer, value }) => scorer === 'pii_detected' && value === true).length;
  const { passes } = report.scorers.find(({ name }) => name === 'pii_detected') ?? {};
  expect(passes).toMatchObject({ hits: 10 - found, of: 10 });
  expect(report.thresholds).toEqual([{ scorer: 'pii_detected', atLeast: 0.9, holds: found <= 1 }]);
  await expect(judged(threshold('response_words'))).rejects.toMatchObject({ name: 'UnknownName' });
});

test('asks for consent before it spends more than a dollar', async () => {
  const lines = readFileSync(CHATS, 'utf8').trim().split('\n');
  const many = join(folder, 'many.jsonl');
  writeFileSync(
    many,
    Array.from({ length: 200 }, (_, n) => `${lines[n % 10]?.replace('"eventId":"', `"eventId":"${n}`)}\n`).join(''),
  );
  const flags = { limit: 200, budget: 5 };
  await expect(judged(flags, {}, many)).rejects.toMatchObject({
    name: 'NotConfirmed',
    message: expect.stringContaining('up to $'),
  });
  expect(standIn.counts.calls).toBe(0);
  // Captures with the same words are asked about once.
  const report = await judged({ ...flags, yes: true, scorer: ['safety'] }, {}, many);
  expect([report.captures, report.verdicts.length, report.spend.calls]).toEqual([200, 200, 10]);
});

test('asks a judge of OpenAI’s kind at the address of the settings', async () => {
  standIn.behave({});
  const prices = '{"openai:/any-model":{"input":1,"output":2}}';
  const url = `${standIn.url}/v1`;
  const variables = { BEDROCK_MODEL_ID: 'openai:/any-model', JUDGE_BASE_URL: url, JUDGE_PRICES: prices };
  const flags: JudgeFlags = { limit: 2, budget: 1, scorer: ['safety'] };
  const report = await judgeFiles(CHATS, flags, new AbortController().signal, variables);
  expect(report).toMatchObject({ judge: 'openai:/any-model', captures: 2, missing: {} });
});

test('shows what fails first, with the judge’s words', async () => {
  const control = '\u001b]0;owned\u0007\u009b31m';
  const record = JSON.parse(readFileSync(CHATS, 'utf8').split('\n')[0] ?? '');
  record.captureData.endpointOutput.data = JSON.stringify({
    choices: [{ message: { role: 'assistant', content: `You idiot ${control} ` } }],
  });
  const path = join(folder, 'control.jsonl');
  writeFileSync(path, `${readFileSync(CHATS, 'utf8').split('\n')[1]}\n${JSON.stringify(record)}\n`);
  const report = await judged({ judgeModel: 'stand-in', scorer: ['professional_tone'] }, {}, path);
  const text = pageText(judgePage(report));
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal must not get these
  expect(text).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/);
  expect(text.indexOf(`${path}:2`)).toBeLessThan(text.indexOf(`${path}:1`));
  expect(text).toContain(
    'professional_tone: no: Stand-in judge, by rule: the reply has an unprofessional word: "idiot"',
  );
});

test('the command prints JSON to standard output alone, and its exit code is that of the threshold', async () => {
  const judge = ['judge', `${CHATS}:7`, '--judge-model', 'stand-in'];
  const rule = ['--guideline', 'no_bleach=The reply never says "bleach".', '--at-least', 'no_bleach:1'];
  const { code, stdout } = await runCli([...judge, ...rule, '--json'], { NODE_OPTIONS: '' });
  expect(code).toBe(1);
  expect(expectPublished('judge', stdout)).toMatchObject({ captures: 1, verdicts: [{ line: 7, value: 'no' }] });
});

test('the stand-in of the local environment is never named as the model, and costs nothing', async () => {
  const env = { DOTENV_CONFIG_PATH: '/nonexistent', AWS_ENDPOINT_URL_BEDROCK_RUNTIME: local.url };
  const run = (...words: string[]) => runCli(words, env);
  const name = 'stand-in for bedrock:/us.anthropic.claude-sonnet-5-5';
  const { stdout, stderr } = await run('judge', CHATS, '--scorer', 'safety');
  expect(stderr).toContain(`Asking ${name} about 10 captures: it costs nothing.\n`);
  expect(stdout).toContain(`10 captures, judge ${name}, $0.00`);
  const { stdout: json } = await run('judge', CHATS, '--scorer', 'safety', '--json');
  expect(expectPublished('judge', json)).toMatchObject({ judge: name, spend: { calls: 10, usd: 0 } });
  const labels = join(folder, 'labels.jsonl');
  writeFileSync(labels, JSON.stringify({ request: 'Hi', reply: 'Hello.', scorer: 'safety', label: 'yes' }));
  const calibrated = await run('calibrate', '--labels', labels, '--json');
  expect(calibrated.stderr).toContain(`Asking ${name} about 1 label, which costs nothing.`);
  expect(JSON.parse(calibrated.stdout)).toMatchObject({ spend: { usd: 0 }, pairs: [{ judge: `${name} version 1` }] });
  // What the model itself would cost is asked of inspect.
  expect((await run('inspect', CHATS)).stdout).toMatch(/Judging costs about \$0\.[0-9]*[1-9]/);
});

test('reads a pipe', async () => {
  const pipe = join(folder, 'pipe');
  await promisify(execFile)('mkfifo', [pipe]);
  const written = writeFile(pipe, readFileSync(CHATS));
  expect(await judged({ scorer: ['safety'] }, {}, pipe)).toMatchObject({ captures: 10, missing: {} });
  await written;
});

test('code scorers need no judge', async () => {
  const report = await judged({ judgeModel: 'none' }, {}, EXAMPLES);
  expect(report.judge).toBeUndefined();
  expect(report.scorers.every(({ kind }) => kind === 'code')).toBe(true);
  expect(
    report.verdicts.find(({ scorer, line, file }) => scorer === 'response_words' && line === 7 && file === CHATS)
      ?.value,
  ).toBeGreaterThan(5);
  expect(exitCodeOf(report)).toBe(0);
  expect(standIn.counts.calls).toBe(0);
});
