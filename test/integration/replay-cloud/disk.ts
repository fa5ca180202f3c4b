/** Tests of a shard whose disk is full, since nothing bounds the size of replies: it stops sending, and is reported as lost. */
import { existsSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { REPLIES_FILE } from '../../../src/replay/compare/replies-file.ts';
import { FILES } from '../../../src/replay/results/result-set.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../../doubles/recording-endpoint.ts';
import { chatLine } from '../../helpers/replay.ts';
import { temporaryFolder } from '../../helpers/temporary-folder.ts';
import { cloud } from './servers.ts';

/** Seconds that are replayed within ten. Each of two shards has half of them. */
const REQUESTS = 600;
const PER_SHARD = REQUESTS / 2;

let endpoint: StandInEndpoint;
beforeAll(async () => {
  endpoint = await startStandInEndpoint({
    latencyMs: 10,
    record: true,
    answer: ({ prompt }) => `You asked: ${prompt}`,
  });
});
afterAll(() => endpoint?.close());

test.each([FILES.records, REPLIES_FILE])(
  'a shard that cannot write %s ends early, by name, and costs no other shard',
  async (file) => {
    const folder = `full-${file}`;
    const lines = Array.from({ length: REQUESTS }, (_, i) => chatLine(`event-${i}`, i, `Question ${i}`));
    await cloud.put(`${folder}/00`, lines);
    const run = cloud.run({
      source: { prefix: `my-endpoint/AllTraffic/2026/11/20/10/${folder}/` },
      target: { url: endpoint.url },
      speedup: 60,
      compare: true,
      shard: { requests: PER_SHARD },
    });
    expect((await run.plan(500)).shards).toBe(2);
    // Every write to this file fails like on a full disk.
    const directory = temporaryFolder('full-');
    symlinkSync('/dev/full', join(directory, file));
    const before = endpoint.requests.length;
    const failure = await run.shard(0, undefined, directory).catch((error: Error) => error);
    expect(failure).toMatchObject({ name: 'ResultsNotWritten', message: expect.stringContaining('shard.requests') });
    const [, sent, unsent] = /ENOSPC.*after (\d+) requests; (\d+) were not sent/.exec(String(failure)) ?? [];
    expect(Number(sent)).toBe(endpoint.requests.length - before);
    expect(Number(sent) + Number(unsent)).toBe(PER_SHARD);
    // The first write is half a second after the first reply.
    expect(Number(sent)).toBeLessThan(PER_SHARD / 2);
    expect(existsSync(directory)).toBe(false);

    expect(await run.shard(1)).toMatchObject({ sent: PER_SHARD, failed: 0 });
    const result = await run.summarize();
    expect(result).toMatchObject({ ok: false, error: 'ReplayIncomplete' });
    expect(result.cause).toContain(`shards lost: 1 (0), with ${PER_SHARD} requests, of which 1 had started`);
    expect(result.cause).toContain('first failure: ResultsNotWritten');
    expect(await run.json('replay.json')).toMatchObject({
      shards: {
        completed: 1,
        lost: [{ shard: 0, requests: PER_SHARD, claimed: true, failure: { name: 'ResultsNotWritten' } }],
      },
    });
    expect(await run.records()).toHaveLength(PER_SHARD);
  },
);
