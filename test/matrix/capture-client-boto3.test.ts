/** The capture client in Python with the boto3 of two years ago. */
import { ensurePythonEnvironment } from '../../local/python/python-environment.ts';
import { startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { S3Wire } from '../doubles/s3-wire.ts';
import { runApp } from '../helpers/capture-apps.ts';

test('streams, replies and errors are what they were, and are captured', async () => {
  const { python } = await ensurePythonEnvironment({ name: 'boto3-2024', packages: { boto3: '1.35.66' } });
  const endpoint = await startStandInEndpoint({ latencyMs: 5, words: 4, interTokenMs: 2 });
  const s3 = await S3Wire.start();
  try {
    const prompts = ['hello', '[[cut stream]]', '[[status 429]]', '[[status 500]]', '[[disconnect]]'];
    const calls = prompts.flatMap((content) =>
      [true, false].map((streamed) => ({
        ...{ streamed, contentType: 'application/json' },
        body: Buffer.from(JSON.stringify({ messages: [{ role: 'user', content }] })).toString('base64'),
      })),
    );
    const spec = { endpoint: endpoint.url, s3: s3.url, options: { calls: 'all' as const }, calls, flushSeconds: 30 };
    const bare = await runApp('python', { ...spec, bare: true }, python);
    const captured = await runApp('python', spec, python);
    const seen = (app: typeof bare) => app.replies.map(({ reply, error }) => ({ reply, error }));
    expect(seen(captured)).toEqual(seen(bare));
    expect(captured.stats).toMatchObject({ written: calls.length, open: 0, waiting: 0, dropped: 0, lastError: null });
    const lines = s3.keys('captures').flatMap((key) => s3.lines<{ client: object }>('captures', key));
    const ends = lines.map(({ client }) => (client as { ended: string }).ended).toSorted();
    expect(ends).toEqual(['broke', ...Array<string>(6).fill('failed'), 'whole', 'whole', 'whole']);
  } finally {
    await endpoint.close();
    await s3.stop();
  }
});
