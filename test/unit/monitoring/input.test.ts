/** The input of executions and of direct invocations. */
import { isLive, parseInput, runOptions } from '../../../src/monitoring/plan/input.ts';

const object = { detail: { bucket: { name: 'captures' }, object: { key: 'my-endpoint/a.jsonl' } } };
const replay = { replay: { run: 'r', experimentId: '7' } };

describe('the input of an execution', () => {
  test('can be an EventBridge event, with all its other fields', () => {
    const event = { version: '0', id: '1', 'detail-type': 'Object Created', source: 'aws.s3', ...object };
    expect(parseInput(event).kind).toBe('object');
  });

  test.each([
    ['undefined', undefined, 'not an object'],
    ['an array', [], 'not an object'],
    ['a bucket alone', { bucket: 'b' }, 'prefix'],
    ['a bucket and a key', { bucket: 'b', key: 'k' }, 'key'],
    ['a backfill with a misspelled option', { bucket: 'b', prefix: 'p', reevalute: true }, 'reevalute'],
    ['an event with a rate over 1', { ...object, sampleRate: 10 }, 'sampleRate'],
    ['a backfill from a day without a time', { bucket: 'b', prefix: 'p', from: '2026-11-20' }, 'from'],
    [
      'a backfill whose window ends before it starts',
      { bucket: 'b', prefix: '', from: '2026-11-20T10:00:00Z', to: '2026-11-20T10:00:00Z' },
      'before',
    ],
    ['a replay without an experiment', { replay: { run: 'r' } }, 'experimentId'],
    ['a replay without a name', { replay: { run: '', experimentId: '7' } }, 'run'],
    ['a replay with batch inference', { ...replay, judge: 'batch' }, 'judge'],
    ['a replay as a dry run', { ...replay, dryRun: true }, 'dryRun'],
    ['a replay with a prefix', { ...replay, prefix: 'p/' }, 'prefix'],
    ['a retry of something else', { retry: { run: 'r', what: 'everything' } }, 'what'],
  ])('cannot be %s: the error shows what is allowed', (_name, input, problem) => {
    let error: Error | undefined;
    try {
      parseInput(input);
    } catch (thrown) {
      error = thrown as Error;
    }
    expect(error?.name).toBe('InvalidInput');
    expect(error?.message).toContain(problem);
    expect(error?.message).toContain('"failed"|"quarantined"|"held"');
  });

  test('fills in the defaults of the stack', () => {
    expect(runOptions(parseInput(object).input, { sampleRate: 0.25 })).toEqual({
      evaluate: true,
      reevaluate: false,
      sampleRate: 0.25,
      dryRun: false,
      judge: 'converse',
    });
    const backfill = parseInput({
      bucket: 'b',
      prefix: 'p',
      from: '2026-11-20T11:00:00+02:00',
      sampleRate: 0,
      judge: 'batch',
    });
    expect(runOptions(backfill.input, { sampleRate: 1 })).toMatchObject({
      sampleRate: 0,
      judge: 'batch',
      window: { fromMs: Date.UTC(2026, 10, 20, 9) },
    });
  });

  test('can be a replay, of which all pairs are judged whatever the rate of the stack', () => {
    expect(parseInput(replay)).toEqual({ kind: 'replay', input: replay });
    const defaults = { sampleRate: 0.25 };
    expect(runOptions(parseInput(replay).input, defaults)).toEqual({
      ...{ evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' },
      replay: { run: 'r', experimentId: '7' },
    });
    const { input } = parseInput({ ...replay, evaluate: false, sampleRate: 0.5, budgetUsd: 3, reevaluate: true });
    const given = { evaluate: false, reevaluate: true, sampleRate: 0.5, budgetUsd: 3 };
    expect(runOptions(input, defaults)).toMatchObject({ ...given, ...replay });
  });
});

test('only runs of new files are live: no backfill, no retry and no re-evaluation', () => {
  const file = { detail: { bucket: { name: 'b' }, object: { key: 'e/A/2026/11/20/10/a.jsonl' } } };
  const options = { reevaluate: false };
  expect(isLive(file, options)).toBe(true);
  expect(isLive({ files: { key: 'starts/x.jsonl' } }, options)).toBe(true);
  expect(isLive(file, { reevaluate: true })).toBe(false);
  expect(isLive({ bucket: 'b', prefix: 'e/' }, options)).toBe(false);
  expect(isLive({ retry: { run: 'r', what: 'failed' } }, options)).toBe(false);
  expect(isLive(replay, options)).toBe(false);
  expect(isLive(null, null)).toBe(false);
});
