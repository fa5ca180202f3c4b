/** AIPerf's loader of Data Capture reads the chats that the capture clients write, streamed and not. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { aiperf } from '../../bench/replay-support/aiperf.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { S3Wire } from '../doubles/s3-wire.ts';
import { LANGUAGES, runApp } from '../helpers/capture-apps.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

/** AIPerf's environment has 840 MB, and its imports take ten seconds. */
const SETUP_MS = 15 * 60_000;

test.each(LANGUAGES)(
  '%s',
  async (language) => {
    const { environment } = await aiperf((line) => console.log(line));
    const endpoint = await startStandInEndpoint({ latencyMs: 5, words: 4, interTokenMs: 2 });
    const s3 = await S3Wire.start();
    const folder = temporaryFolder('aiperf-captures-');
    try {
      const chats = ['hello', 'naïve “ü” \\ \n 🙂', '[[cut stream]]', '[[status 429]]'];
      const messages = chats.map((content) => [{ role: 'user', content }]);
      const calls = messages.flatMap((each) =>
        [true, false].map((streamed) => ({
          ...{ streamed, contentType: 'application/json' },
          body: Buffer.from(JSON.stringify({ messages: each, max_tokens: 9 })).toString('base64'),
        })),
      );
      const options = { calls: 'all' as const };
      const spec = { endpoint: endpoint.url, s3: s3.url, options, calls, flushSeconds: 30 };
      const { stats } = await runApp(language, spec);
      expect(stats.written).toBe(calls.length);
      const file = join(folder, 'captures.jsonl');
      writeFileSync(
        file,
        s3
          .keys('captures')
          .map((key) => s3.text('captures', key))
          .join(''),
      );
      const script = packagePath('test', 'helpers', 'aiperf_captures.py');
      const { stdout } = await promisify(execFile)(environment.python, [script, file]);
      const read = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as { canLoad: boolean; messages: object[] };
      expect(read.canLoad).toBe(true);
      const texts = (all: readonly object[]): string[] => all.map((each) => JSON.stringify(each)).sort();
      expect(texts(read.messages)).toEqual(texts([...messages, ...messages]));
    } finally {
      await endpoint.close();
      await s3.stop();
    }
  },
  SETUP_MS,
);
