/** Checks the MLflow run of a cloud replay, on servers that accept traces one by one and refuse existing ones. */

import { MANAGED_MLFLOW_VERSION } from '../../local/python/python-presets.ts';
import { chatLine } from '../helpers/replay.ts';
import { WORK } from '../helpers/replay-cloud.ts';
import { EvaluatedReplays } from '../helpers/replay-evaluation.ts';

/** The oldest tested version, SageMaker's managed version, and the first version that merges repeated posts. */
const VERSIONS = ['3.9.0', MANAGED_MLFLOW_VERSION, '3.13.0'];
const LIMIT_MS = 10 * 60_000;

test(
  'the replay writes files to the bucket directly if the server does not serve artifacts',
  async () => {
    const all = await EvaluatedReplays.start(undefined, `s3://${WORK}/mlflow`);
    try {
      await all.cloud.put('s3/00', [chatLine('e', 0, 'question')]);
      const source = { prefix: 'my-endpoint/AllTraffic/2026/11/20/10/s3' };
      const run = all.cloud.run({ source, target: { url: all.endpoint.url }, mlflow: true });
      const { shards } = await run.plan(0);
      await run.replay(shards);
      expect((await run.summarize()).mlflow?.leftOut).toEqual([]);
      const [made] = await all.runsOf(run.name);
      const root = `${made?.info.artifact_uri.replace(`s3://${WORK}/`, '')}/`;
      expect(root).toMatch(/^mlflow\//);
      expect((await all.cloud.keys(root)).sort()).toEqual((await run.results()).sort());
      expect(await all.cloud.text(`${root}report.html`)).toBe(await run.result('report.html'));
    } finally {
      await all.stop();
    }
  },
  LIMIT_MS,
);

test.each(VERSIONS)(
  'MLflow %s: stores the run and the traces with verdicts, without duplicates',
  async (version) => {
    const all = await EvaluatedReplays.start(version);
    try {
      await all.cloud.put(
        'old/00',
        [0, 1, 2, 3].map((i) => chatLine(`e${i}`, i, `question ${i}`)),
      );
      const source = { prefix: 'my-endpoint/AllTraffic/2026/11/20/10/old' };
      const evaluated = { mlflow: true, judge: true };
      const input = { source, target: { url: all.endpoint.url }, ...evaluated, speedup: 4, shard: { seconds: 0.5 } };
      const run = all.cloud.run(input);
      const { shards } = await run.plan(0);
      await run.plan(0);
      await run.replay(shards);
      expect(await run.summarize()).toMatchObject({ ok: true });
      for (const attempt of [0, 1]) {
        const { error, summary } = await all.monitor(run, attempt);
        expect(error).toBeUndefined();
        expect(summary).toMatchObject({ status: 'succeeded', lines: { traced: 4 }, spend: { calls: 8 } });
      }
      await run.summarize();
      await run.ended('FAILED');
      const runs = await all.runsOf(run.name);
      expect(runs.map(({ info }) => info.status)).toEqual(['FINISHED']);
      expect(runs[0]?.data.metrics).toContainEqual(expect.objectContaining({ key: 'request_count', value: 4 }));
      const id = await all.experimentId('my-endpoint-replays');
      const traces = await all.reader.search(id, `tag.replay_run = '${run.name}'`);
      expect(traces.map(({ tags }) => tags.event_id).sort()).toEqual(['e0', 'e1', 'e2', 'e3']);
      expect(traces.every(({ spans }) => spans.length > 0)).toBe(true);
      for (const { traceId, assessments } of traces) {
        expect(assessments).toMatchObject([{ name: 'pairwise_preference', sourceType: 'LLM_JUDGE', valid: true }]);
        const value = String(assessments[0]?.value);
        expect(['better', 'same', 'worse']).toContain(value);
        expect(await all.reader.find(id, `feedback.pairwise_preference = '${value}'`)).toContain(traceId);
      }
      const linked = await all.reader.find(id, `attributes.run_id = '${runs[0]?.info.run_id}'`);
      expect(linked).toHaveLength(4);
    } finally {
      await all.stop();
    }
  },
  LIMIT_MS,
);
