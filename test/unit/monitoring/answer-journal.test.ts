/** The entry of one trace in the answer journal, while several attempts write it. */
import { workKeys } from '../../../src/contract/work-keys.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import type { JudgeScorer, Verdict } from '../../../src/judge/types.ts';
import { AnswerJournal } from '../../../src/monitoring/evaluate/answer-journal.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { chunkRequest } from '../../helpers/chunk-request.ts';

const [one, two] = scorersFor().filter(isJudgeScorer) as [JudgeScorer, JudgeScorer];
const JUDGE = 'test:/model';
const TRACE = 'tr-1';
const KEY = workKeys.answer('run', TRACE);
const SPEND = { calls: 1, inputTokens: 1, outputTokens: 1, usd: 0.5 };

let memory: MemoryStorage;
beforeEach(() => {
  memory = new MemoryStorage();
});

/** The journal of an attempt whose function ends at once, so that the next one may ask. */
const attempt = (requestId: string, untilMs = 0) =>
  new AnswerJournal(memory.storage, 'work', chunkRequest(memory, []), requestId, untilMs);
const verdictOn = ({ name }: JudgeScorer): Verdict => ({
  scorer: name,
  outcome: 'verdict',
  value: 'yes',
  rationale: 'So it is.',
  usage: { inputTokens: 1, outputTokens: 1, usd: 0.5 },
});
const stored = () => JSON.parse(memory.objects.get(KEY)?.toString() ?? '{}');
const scorersOf = (answers: { verdict: Verdict }[]) => answers.map(({ verdict }) => verdict.scorer);

async function taken(journal: AnswerJournal, scorers: JudgeScorer[]) {
  const found = await journal.take(TRACE, scorers, JUDGE);
  if (found.open === undefined) throw new Error('claimed');
  return found;
}

test('answers and costs of two attempts at different questions are kept side by side', async () => {
  const [first, second] = [attempt('r1'), attempt('r2')];
  const ofFirst = await taken(first, [one]);
  const ofSecond = await taken(second, [two]);
  await second.keep(TRACE, ofSecond, JUDGE, [verdictOn(two)], SPEND);
  await first.keep(TRACE, ofFirst, JUDGE, [verdictOn(one)], SPEND);
  expect(scorersOf(stored().answers)).toEqual([two.name, one.name]);
  expect(stored().paid.map(({ requestId }: { requestId: string }) => requestId)).toEqual(['r2', 'r1']);
  expect((await taken(attempt('r3'), [one, two])).open).toEqual([]);
});

test('a write that seemed to fail is not made again', async () => {
  const journal = attempt('r1');
  const own = await taken(journal, [one]);
  const put = memory.putJsonIf;
  memory.putJsonIf = async (...given) => {
    memory.putJsonIf = put;
    await put.apply(memory, given);
    return undefined;
  };
  await journal.keep(TRACE, own, JUDGE, [verdictOn(one)], SPEND);
  expect([stored().answers.length, stored().paid.length]).toEqual([1, 1]);
});

test('an answer that cannot be written fails by name, and is not lost silently', async () => {
  const journal = attempt('r1');
  const own = await taken(journal, [one]);
  memory.putJsonIf = async () => undefined;
  await expect(journal.keep(TRACE, own, JUDGE, [verdictOn(one)], SPEND)).rejects.toMatchObject({
    name: 'StorageUnavailable',
  });
});

test('an entry that expired while it was claimed begins anew', async () => {
  const put = memory.putJsonIf;
  memory.putJsonIf = async () => {
    memory.putJsonIf = put;
    return undefined;
  };
  await taken(attempt('r1'), [one]);
  expect(stored()).toMatchObject({ claim: { requestId: 'r1' }, answers: [], paid: [] });
});
