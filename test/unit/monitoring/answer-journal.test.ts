/** The answer journal: what an attempt saves, and what the next one reads. */
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import type { JudgeScorer, Verdict } from '../../../src/judge/types.ts';
import { AnswerJournal } from '../../../src/monitoring/evaluate/answer-journal.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { chunkRequest } from '../../helpers/chunk-request.ts';

const [one, two] = scorersFor().filter(isJudgeScorer) as [JudgeScorer, JudgeScorer];
const judge = 'test:/model';
const trace = 'tr-1';
const spend = { calls: 1, inputTokens: 1, outputTokens: 1, usd: 0.5 };

let memory: MemoryStorage;
beforeEach(() => {
  memory = new MemoryStorage();
});

const attempt = (requestId: string, more: { attempt?: number; run?: string } = {}) =>
  new AnswerJournal(memory.storage, 'work', chunkRequest(memory, [], more), requestId);
const verdictOn = ({ name }: JudgeScorer): Verdict => ({
  scorer: name,
  outcome: 'verdict',
  value: 'yes',
  rationale: 'So it is.',
  usage: { inputTokens: 1, outputTokens: 1, usd: 0.5 },
});
const answerOf = (scorer: JudgeScorer) => ({
  trace,
  ask: `about ${scorer.name}`,
  judge,
  answers: [{ version: scorer.version, verdict: verdictOn(scorer) }],
  whole: true,
  spend,
});
const segments = () => [...memory.objects.keys()].filter((key) => key.startsWith('answers/'));

test('answers of two attempts at different questions are read by the third, with what they cost', async () => {
  const [first, second] = [attempt('r1'), attempt('r2', { attempt: 1 })];
  first.keep(answerOf(one));
  second.keep(answerOf(two));
  await Promise.all([first.save(), second.save()]);
  await first.saveWritten({ written: ['tr-2'], bare: [] });
  const third = attempt('r3', { attempt: 2 });
  const unreported = await third.open();
  expect(unreported).toEqual([
    { from: ['r1'], spend },
    { from: ['r2'], spend },
  ]);
  expect(third.known(trace, [one, two], judge)).toEqual([verdictOn(one), verdictOn(two)]);
  expect(third.openOf(trace, [one, two], 'test:/another')).toEqual([one, two]);
  expect(third.answered('about nothing', judge)).toBeUndefined();
  expect([third.mayCreate('tr-2'), third.mayCreate('tr-3')]).toEqual([false, true]);
  // An execution that is redriven counts its attempts anew.
  expect(await attempt('r4').open()).toEqual(unreported);
});

test('an attempt with a receipt, and one that a receipt names, have reported what they paid', async () => {
  const [first, second] = [attempt('r1'), attempt('r2', { attempt: 1 })];
  for (const journal of [first, second]) journal.keep(answerOf(one));
  await Promise.all([first.save(), second.save()]);
  const takenOver = [{ from: ['r1'], spend }];
  memory.put(workKeys.receipt('run', 0, 'evaluate', 1, 'r2'), { requestId: 'r2', takenOver });
  expect(await attempt('r3', { attempt: 2 }).open()).toEqual([]);
});

test('answers that cannot be saved fail by name when they must be, and are saved later', async () => {
  const journal = attempt('r1');
  const put = memory.putText;
  memory.putText = async () => {
    throw new Error('S3 is away');
  };
  journal.keep(answerOf(one));
  await expect(journal.save()).rejects.toThrow('S3 is away');
  expect(segments()).toEqual([]);
  memory.putText = put;
  journal.keep(answerOf(two));
  await journal.save();
  await journal.save();
  expect(segments()).toEqual([workKeys.answers('run', 0, 0, 'r1', 0)]);
  expect(
    memory.objects
      .get(segments()[0] ?? '')
      ?.toString()
      .trim()
      .split('\n'),
  ).toHaveLength(2);
});

test('many answers are saved before anybody asks for it', async () => {
  const journal = attempt('r1');
  for (let n = 0; n < 120; n += 1) journal.keep({ ...answerOf(one), trace: `tr-${n}` });
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect(segments()).toHaveLength(1);
});

test('which traces are written is saved at once, and the answers that came meanwhile wait for more', async () => {
  const journal = attempt('r1');
  journal.keep(answerOf(one));
  await journal.saveWritten({ written: ['tr-2'], bare: ['tr-3'] });
  const read = async () => {
    const later = attempt('r2', { attempt: 1 });
    await later.open();
    return [later.isWritten('tr-2'), later.known(trace, [one], judge).length];
  };
  expect([segments().length, await read()]).toEqual([1, [true, 0]]);
  await journal.save();
  expect([segments().length, await read()]).toEqual([2, [true, 1]]);
});

test('of the journals of earlier runs, only what is about the traces of the chunk is kept', async () => {
  const before = attempt('r1', { run: 'before' });
  for (const id of ['tr-1', 'tr-2']) before.keep({ ...answerOf(one), trace: id });
  await before.savePosts({ 'tr-1': ['a-1', 'a-2'], 'tr-2': ['a-3', 'a-4'] });
  await before.saveWritten({ written: ['tr-1', 'tr-2'], bare: [] });
  const request = chunkRequest(memory, ['a line']);
  const ranges = request.chunk.ranges.map((range) => ({ ...range, answersIn: [workKeys.chunkOfRun('before', 0)] }));
  const journal = new AnswerJournal(memory.storage, 'work', { ...request, chunk: { ...request.chunk, ranges } }, 'r2');
  expect(await journal.open()).toEqual([]);
  await journal.openEarlier(new Set(['tr-1']));
  const known = (id: string) => [journal.known(id, [one], judge).length, journal.isWritten(id)];
  expect([known('tr-1'), known('tr-2')]).toEqual([
    [1, true],
    [0, false],
  ]);
  const with1 = (traceId: string, id: string) =>
    ({ traceId, state: 'OK', assessments: [{ assessmentId: id }] }) as never;
  expect(journal.wasDeleted(with1('tr-1', 'a-1'), 'a-2')).toBe(true);
  expect(journal.wasDeleted(with1('tr-2', 'a-3'), 'a-4')).toBe(false);
});
