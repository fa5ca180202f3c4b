/** Tests of the commands about runs: `process`, `show --follow`. */
import { dirname } from 'node:path';
import processCommand from '../../../bin/commands/process.ts';
import type { RunFiles } from '../../../bin/commands/show.ts';
import showCommand from '../../../bin/commands/show.ts';
import type { LineStory } from '../../../src/ledger/what-became.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { expectPublished } from '../../helpers/published-json.ts';
import { startCli } from '../../helpers/replay.ts';
import {
  ENDPOINT,
  environment,
  HOUR,
  local,
  PROCESSED_KEY,
  personVariables,
  pipeline,
  processed,
  putChats,
  run,
} from './stack.ts';

describe('show --follow', () => {
  test('prints the result of a run: its figures, its quarantined lines with the reason and the place', async () => {
    const { stdout, code } = await run(showCommand(), processed.name, '--follow');
    expect(code).toBe(0);
    expect(stdout).toContain(`── ${processed.name}: succeeded ──`);
    expect(stdout).toMatch(/^captured 6, traced 5, quarantined 1, /m);
    expect(stdout).toMatch(new RegExp(`^NotJson: 1\\n  ${PROCESSED_KEY}:6: .*cut off`, 'm'));
    expect(stdout).toMatch(/^traces: http:\/\/127\.0\.0\.1:\d+\/#\/experiments\/\d+\/traces\?startTimeLabel=ALL$/m);
    expect(stdout).toContain(`inference-monitor show ${processed.name} --out quarantined.jsonl`);
  });

  test('finds a run by its ARN, and names the nearest one to a name that no run has', async () => {
    expect((await run(showCommand(), processed.arn, '--follow', '--json')).code).toBe(0);
    const { error } = await run(showCommand(), `${processed.name.slice(0, -1)}x`);
    expect(error?.name).toBe('NoSuchRun');
    expect(error?.message).toContain(`Did you mean ${processed.name}?`);
  });
});

describe('show of lines', () => {
  test('lists what became of the lines of each file', async () => {
    const { stdout } = await run(showCommand(), processed.name, '--files', '--json');
    const [file, ...others] = (expectPublished('show', stdout) as RunFiles).files;
    expect(others).toEqual([]);
    expect(file).toEqual({
      ...{ key: PROCESSED_KEY, lines: 6, lost: 0 },
      ...{ outcomes: { traced: 5, quarantined: 1 }, reasons: { NotJson: 1 } },
    });
    const page = await run(showCommand(), processed.name, '--files');
    expect(page.stdout).toMatch(
      /^file +lines +traced +quarantined +lost +why\n.*processed\.jsonl +6 +5 +1 +0 +NotJson 1$/m,
    );
  });

  test('says what became of one line, in a run and in all', async () => {
    const bad = await run(showCommand(), processed.name, '--line', `${PROCESSED_KEY}:6`);
    expect(bad.stdout).toContain('outcome: quarantined (NotJson)');
    expect(bad.stdout).toContain(`retry ${processed.name} --what quarantined`);
    const good = await run(showCommand(), processed.name, '--line', `${PROCESSED_KEY}:1`, '--json');
    const story = expectPublished('show', good.stdout) as LineStory;
    expect(story).toMatchObject({ outcome: 'traced', run: processed.name });
    expect(story.verdicts).toContainEqual(expect.objectContaining({ scorer: 'safety', state: 'given', value: 'yes' }));
    const { stdout } = await run(showCommand(), '--trace', story.traceId ?? '');
    expect(stdout).toMatch(/^outcome: traced$/m);
    expect(stdout).toMatch(/^safety +given +yes$/m);
  });

  test.each([
    ['a line that is not in the file', [`--line`, `${PROCESSED_KEY}:7`], 'NoSuchLine'],
    ['no number', ['--line', PROCESSED_KEY], 'NoSuchLine'],
    ['a trace that is not there', ['--trace', 'tr-0'], 'NoSuchLine'],
  ])('refuses %s', async (_, args, name) => {
    expect((await run(showCommand(), processed.name, ...args)).error?.name).toBe(name);
  });

  test('needs a run or a trace', async () => {
    expect((await run(showCommand())).error?.name).toBe('NoSuchRun');
  });
});

describe('Ctrl-C', () => {
  beforeAll(() => pipeline.disableRule());
  afterAll(() => pipeline.enableRule());

  test('leaves a run running, and says how to follow it again', async () => {
    const key = await putChats('interrupted', 1);
    environment.judge.behave({ delayMs: 5_000 });
    const command = startCli(['process', key, '--name', 'interrupted'], personVariables());
    await pipeline.until(
      'its progress',
      // Its first look may come when the run is planned.
      async () => (/\ninterrupted: |, interrupted\n/.test(command.stderr()) ? true : undefined),
      60_000,
    );
    process.kill(command.pid, 'SIGINT');
    const { code, stdout, stderr } = await command.done;
    expect({ code, stdout }).toEqual({ code: 130, stdout: '' });
    expect(stderr).toMatch(
      /The run continues\. To follow it again:\n {2}inference-monitor show interrupted --follow --stack operated\n$/,
    );
    environment.judge.behave({});
    expect(await run(showCommand(), 'interrupted', '--follow')).toMatchObject({ code: 0 });
  });
});

describe('process', () => {
  const OTHER = 'other/AllTraffic/2026/11/20/11/a.jsonl';

  test('starts a run over one file, follows it in lines, and prints its figures as JSON', async () => {
    const key = await putChats('by-key', 2);
    const { stdout, stderr, code } = await run(processCommand(), key, '--no-evaluate', '--name', 'by-key', '--json');
    expect({ code, stderr }).toMatchObject({ code: 0 });
    const { runs } = JSON.parse(stdout);
    const asked = `s3://sagemaker-captures/${key}, no evaluation`;
    expect(runs).toMatchObject([{ run: 'by-key', status: 'succeeded', asked }]);
    expect(runs[0].figures.lines).toMatchObject({ planned: 2, traced: 2, quarantined: 0, outsideWindow: 0, lost: 0 });
    expect(stderr).toMatch(/^1 capture file, /m);
    expect(stderr).toMatch(/^run: by-key$/m);
  });

  test('starts a backfill with its options, and does not follow it if it is detached', async () => {
    const { stdout, stderr } = await run(
      processCommand(),
      ...[`s3://sagemaker-captures/${ENDPOINT}/`, '--from', '2026-11-20', '--to', '2026-11-21T00:00:00Z'],
      ...['--sample-rate', '0.5', '--budget', '3', '--name', 'backfill', '--detach'],
    );
    expect(stdout).toBe('backfill\n');
    expect(stderr).toContain('inference-monitor show backfill --follow');
    const { input, status } = await pipeline.ended(
      `${pipeline.outputs.stateMachineArn.replace(':stateMachine:', ':execution:')}:backfill`,
    );
    expect(status).toBe('SUCCEEDED');
    expect(input).toEqual({
      bucket: 'sagemaker-captures',
      prefix: `${ENDPOINT}/`,
      from: '2026-11-20T00:00:00.000Z',
      to: '2026-11-21T00:00:00.000Z',
      sampleRate: 0.5,
      budgetUsd: 3,
    });
  });

  test('puts files of this machine, follows the runs of the rule, and puts nothing twice', async () => {
    const key = `${ENDPOINT}/AllTraffic/2026/11/20/11/local.jsonl`;
    const path = local(key, [chatLine('local-1'), 'no capture']);
    const refused = await run(processCommand(), path, '--sample-rate', '0.1');
    expect(refused.error?.name).toBe('OptionsNeedCaptures');
    const dry = await run(processCommand(), path, '--dry-run', '--json');
    expect(expectPublished('process', dry.stdout)).toMatchObject({ runs: [], files: [{ path }] });
    const { stdout, code } = await run(processCommand(), path);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^captured 2, traced 1, quarantined 1, /m);
    const again = await run(processCommand(), path, '--sample-rate', '0.1', '--json');
    expect(again.stderr).toContain('1 file is in the bucket already');
    expect(JSON.parse(again.stdout).runs[0].asked).toBe(`s3://sagemaker-captures/${key}, sample rate 0.1`);
    local(key, [chatLine('local-2')]);
    expect((await run(processCommand(), path)).error?.name).toBe('CaptureInTheWay');
  });

  test.each<[string, () => string[], string, RegExp]>([
    ['nothing', () => [], 'SourceMissing', /--from/],
    ['a key that is not there', () => [`${HOUR}/proccessed.jsonl`], 'CaptureMissing', /such as .*\/processed\.jsonl/],
    ['another bucket', () => ['s3://elsewhere/a.jsonl'], 'OutsideCaptureScope', /under s3:\/\/sagemaker-captures/],
    ['a prefix outside the stack’s', () => ['other/'], 'OutsideCaptureScope', /under s3:/],
    ['a prefix without captures', () => [`${ENDPOINT}/blue/`], 'NoCaptures', /such as s3:\/\/sagemaker-captures/],
    ['an empty range', () => ['--from', '2026-11-21', '--to', '2026-11-20'], 'InvalidTime', /--from before --to/],
    ['a range for one file', () => [PROCESSED_KEY, '--from', '1d'], 'InvalidTime', /under a prefix/],
    ['a path that is not there', () => ['./no-such-folder'], 'SourceMissing', /no such file/],
    ['a file without captures', () => [local('notes.jsonl', ['hello'])], 'NotACapture', /captureData/],
    ['a folder without captures', () => [dirname(local('empty/a.txt', ['hello']))], 'NoCaptureFiles', /files that end/],
    ['a file of another endpoint', () => [local(OTHER, [chatLine('other')])], 'OtherEndpoint', /of garden-endpoint/],
    ['an empty source', () => ['', '--from', '1d'], 'SourceMissing', /a source/],
    ['a sample rate over 1', () => [PROCESSED_KEY, '--sample-rate', '2'], 'CommanderError', /from 0 to 1/],
    ['a budget of 0', () => [PROCESSED_KEY, '--budget', '0'], 'CommanderError', /--no-evaluate/],
    ['options of the judge alone', () => [PROCESSED_KEY, '--no-evaluate', '--batch'], 'OptionsContradict', /--batch/],
    ['a name that is taken', () => [PROCESSED_KEY, '--name', 'by-key'], 'RunNameTaken', /90 days/],
    ['a name with a space', () => [PROCESSED_KEY, '--name', 'a b'], 'InvalidRunName', /letters/],
    ['two sources', () => [PROCESSED_KEY, PROCESSED_KEY], 'CommanderError', /too many arguments/],
  ])('refuses %s', async (_, args, name, message) => {
    const { error, stdout } = await run(processCommand(), ...args());
    expect(error?.message).toMatch(message);
    expect(error?.name).toBe(name);
    expect(stdout).toBe('');
  });
});
