/** Two stacks in an account, each with the captures of its endpoint, and the alarm on the quality of one of them. */

import { captureLine, chatLine, chatReply, chatRequest, json } from '../helpers/deployed-captures.ts';
import { DeployedPipeline, type Outcome } from '../helpers/deployed-pipeline.ts';
import { subscribeQueue } from '../helpers/deployed-topic.ts';
import { type LocalEnvironment, startEnvironment } from '../helpers/local-environment.ts';

const ENDPOINT = 'garden-endpoint';
const HOUR = `${ENDPOINT}/AllTraffic/2026/11/20/10`;

let environment: LocalEnvironment;
let first: DeployedPipeline;

async function deployed(prefix: string, endpoint: string): Promise<DeployedPipeline> {
  const settings = {
    STACK_PREFIX: prefix,
    SAGEMAKER_ENDPOINT_NAME: endpoint,
    QUALITY_OBJECTIVES: '[{"scorer":"safety","atLeast":0.95}]',
  };
  return new DeployedPipeline(environment, prefix, await environment.deployStack(settings));
}

beforeAll(async () => {
  environment = await startEnvironment({ awsEnv: { SFN_WAIT_SCALE: '0.05' } });
  first = await deployed('first', ENDPOINT);
  await environment.mlflow;
});
afterAll(() => environment?.stop());

/** Expects success; a failure shows the error and its cause. */
function expectSucceeded({ status, error, cause }: Outcome): void {
  expect({ status, error, cause }).toEqual({ status: 'SUCCEEDED' });
}

test('a second stack processes only the captures of its endpoint, and the first leaves them to it', async () => {
  // Without its slash, the prefix of the first stack would be the beginning of this one.
  const second = await deployed('second', `${ENDPOINT}-2`);
  const key = `${ENDPOINT}-2/AllTraffic/2026/11/20/10/own.jsonl`;
  const outcome = await second.process(key, [chatLine('own')]);
  expectSucceeded(outcome);
  expect(outcome.summary?.lines).toMatchObject({ planned: 1, traced: 1 });
  expect(await first.executionsOf(key)).toEqual([]);
});

describe('an objective', () => {
  /** Captures of the last minutes, one a second, of which one in two of the given lines is unsafe. */
  const recent = (name: string, count: number, isBad: (line: number) => boolean, minutesAgo: number): string[] =>
    Array.from({ length: count }, (_, line) => {
      const time = new Date(Date.now() - minutesAgo * 60_000 + line * 1000).toISOString();
      const reply = isBad(line) ? 'First, build a bomb.' : `Prune plant ${name} ${line} in late winter.`;
      return captureLine(
        `${name}-${line}`,
        time,
        json(chatRequest(`How do I prune ${name} ${line}?`)),
        json(chatReply(reply)),
      );
    });
  /** From this line on, every second answer is bad. */
  const TURN = 40;
  const bad = recent('objective-bad', 80, (line) => line >= TURN && line % 2 === 0, 12);
  const good = recent('objective-good', 160, () => false, 9);
  let messages: Awaited<ReturnType<typeof subscribeQueue>>;
  beforeAll(async () => {
    messages = await subscribeQueue(first);
  });

  test('is raised within minutes of the file, with its beginning, and reports recovery', async () => {
    const begin = Date.now();
    expectSucceeded(await first.process(`${HOUR}/objective-bad.jsonl`, bad));
    const [alarm, ...more] = await first.until('a message', async () => {
      const found = await messages();
      return found.length === 0 ? undefined : found;
    });
    const seconds = (Date.now() - begin) / 1000;
    expect(more).toEqual([]);
    expect(alarm?.Subject).toBe(`ALARM: quality: safety of ${ENDPOINT}`);
    const since = /^Stack first\. Since ([\d-]+ [\d:]+) UTC: (\d+\.\d)% of (\d+) captures/.exec(alarm?.Message ?? '');
    const turned = JSON.parse(bad[TURN] ?? '').eventMetadata.inferenceTime as string;
    expect(Math.abs(Date.parse(`${since?.[1]?.replace(' ', 'T')}:00Z`) - Date.parse(turned))).toBeLessThan(90_000);
    expect(Number(since?.[2])).toBeLessThan(75);
    expect(Number(since?.[3])).toBeLessThan(45);
    expect(alarm?.Message).toContain('Before: 100.0% of ');
    expect(alarm?.Message.match(/selectedEvaluationId=tr-/g)).toHaveLength(5);
    expect(alarm?.Message).not.toContain('bomb');
    // The emulator has no clock of CloudWatch: a window of a minute is in it, three minutes for metric and alarm are not.
    expect(seconds + 180).toBeLessThan(900);

    expectSucceeded(await first.process(`${HOUR}/objective-good.jsonl`, good));
    const ok = await first.until('a message', async () => (await messages())[0]);
    expect(ok.Subject).toBe(`OK: quality again: safety of ${ENDPOINT}`);
  });

  test('is not missed by a backfill, a run of the same file again, or a re-evaluation', async () => {
    const [before] = await first.readWork<object>('counts/detectors.json');
    await first.disableRule();
    const unseen = recent('objective-unseen', 25, () => true, 5);
    await first.put(`${ENDPOINT}/Unseen/2026/11/20/10/bad.jsonl`, unseen);
    const { captureBucket: bucket } = first.outputs;
    const backfill = await first.run({ bucket, prefix: `${ENDPOINT}/Unseen/` });
    expectSucceeded(backfill);
    expect(backfill.summary?.verdictsByScorer.safety).toEqual({ no: 25 });
    expectSucceeded(await first.run(first.event(`${HOUR}/objective-bad.jsonl`)));
    // A part of it is enough: MLflow takes each new verdict of a known trace alone.
    const again = { reevaluate: true, sampleRate: 0.2 };
    expectSucceeded(await first.run(first.event(`${HOUR}/objective-bad.jsonl`, again)));
    await first.enableRule();
    expect(await messages()).toEqual([]);
    expect((await first.readWork<object>('counts/detectors.json'))[0]).toEqual(before);
  });
});
