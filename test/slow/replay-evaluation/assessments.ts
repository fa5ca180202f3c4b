/** Tests of the judge's verdicts on the traces of replayed requests, when writing them is interrupted. */
import type { EvaluationProgress } from '../../../src/replay/cloud/evaluate/progress.ts';
import {
  JUDGED,
  manyReplies,
  preferences,
  progressOf,
  REPLAYS,
  tracesOf,
} from '../../integration/replay-evaluation/replays.ts';
import { all, TEST_MS } from '../../integration/replay-evaluation/servers.ts';

describe('verdicts as assessments, interrupted', () => {
  test(
    'duplicates nothing after a crash before the progress is saved',
    async () => {
      const run = await manyReplies('dies', 70, JUDGED);
      const { storage } = all.cloud;
      const putJson = storage.putJson.bind(storage);
      storage.putJson = (bucket, key, value) =>
        (value as Partial<EvaluationProgress>).assessments?.parts === 1
          ? Promise.reject(new Error('killed'))
          : putJson(bucket, key, value);
      try {
        await expect(run.evaluate(0)).rejects.toThrow('killed');
      } finally {
        storage.putJson = putJson;
      }
      const written = Object.values(preferences(await tracesOf(run.name))).filter((values) => values.length > 0);
      expect(written).toHaveLength(64);
      expect((await progressOf(run)).assessments).toEqual({ parts: 0, written: 0, withoutTrace: 0 });
      const asked = all.judgeProxy.requests.length;
      expect(await run.evaluate(0)).toMatchObject({ done: true, judged: 70 });
      expect(all.judgeProxy.requests).toHaveLength(asked);
      expect((await progressOf(run)).assessments).toEqual({ parts: 2, written: 70, withoutTrace: 0 });
      expect(Object.values(preferences(await tracesOf(run.name)))).toEqual(
        Array.from({ length: 70 }, () => ['better']),
      );
    },
    TEST_MS,
  );

  test(
    'leaves assessments to the next call if there is no time',
    async () => {
      const run = await manyReplies('no-time', 70, JUDGED);
      let looked = 0;
      const { done, judged } = await run.evaluate(0, () => (looked++ < 12 ? 900_000 : 50_000));
      expect(done).toBe(false);
      expect(judged).toBeGreaterThan(0);
      expect(judged).toBeLessThan(64);
      expect((await progressOf(run)).assessments).toEqual({ parts: 0, written: 0, withoutTrace: 0 });
      expect(await run.evaluate(0)).toEqual({ done: true, shard: 0, traces: 70, judged: 70 });
      expect(all.judgeProxy.requests).toHaveLength(140);
      expect((await progressOf(run)).assessments).toMatchObject({ written: 70, withoutTrace: 0 });
      expect(Object.values(preferences(await tracesOf(run.name)))).toEqual(
        Array.from({ length: 70 }, () => ['better']),
      );
    },
    TEST_MS,
  );

  test(
    'writes the verdicts so far if the judge fails',
    async () => {
      const run = await manyReplies('half', 100, JUDGED);
      all.judgeProxy.rule((_, ordinal) => (ordinal < 60 ? undefined : { kind: 'reply', status: 429, body: '{}' }));
      await expect(run.evaluate(0)).rejects.toMatchObject({ name: 'JudgeThrottled' });
      const { pairs, assessments } = await progressOf(run);
      expect(pairs.judged.better).toBeGreaterThan(0);
      expect(assessments.written).toBe(pairs.judged.better);
      const id = await all.experimentId(REPLAYS);
      const better = `feedback.pairwise_preference = 'better' and tag.replay_run = '${run.name}'`;
      expect(await all.reader.find(id, better)).toHaveLength(pairs.judged.better);
      all.heal();
      expect(await run.evaluate(0)).toMatchObject({ done: true, judged: 100 });
      expect(await all.reader.find(id, better)).toHaveLength(100);
    },
    TEST_MS,
  );
});
