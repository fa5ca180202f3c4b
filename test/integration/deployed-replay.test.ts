/**
 * Tests of cloud replays on a deployed stack in an emulated AWS. The functions run in separate processes. A stand-in endpoint
 * checks signatures and records all requests with their arrival times.
 */

import { ListExecutionsCommand, ListMapRunsCommand, StopExecutionCommand } from '@aws-sdk/client-sfn';
import { areaOf, replayKeys } from '../../src/core/contract/work-keys.ts';
import { replayState } from '../../src/replay/cloud/summarize/stop-shards.ts';
import { uncheckedIn } from '../aws-requests/product-operations.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { signedBy } from '../doubles/sigv4-verifier.ts';
import { DeployedPipeline, type Outcome } from '../helpers/deployed-pipeline.ts';
import { DeployedReplay, type NumberedCapture, numberedCapture, received } from '../helpers/deployed-replay.ts';
import { type LocalEnvironment, startEnvironment } from '../helpers/local-environment.ts';
import { type CliResult, runCli } from '../helpers/replay.ts';
import { claimKey } from '../helpers/stored-plan.ts';

const ENDPOINT = 'captured-endpoint';
const TARGET = 'candidate-endpoint';
/** The functions have the account's number as their access key id. */
const FUNCTION_KEY = { accessKeyId: '000000000000', secretAccessKey: 'test' };

/** No request may be early. The timers of both processes have whole milliseconds. */
const EARLY_MS = 20;
/**
 * Limit for the most punctual request of a shard, since a busy machine may delay any request. A shard is called about ten
 * seconds before its time: with a separate clock it would be early, and with a clock that starts at its first request, late
 * by the seconds of the earlier shards.
 */
const LATE_MS = 2_500;

let environment: LocalEnvironment;
let endpoint: StandInEndpoint;
let monitoring: DeployedPipeline;
let replays: DeployedReplay;

beforeAll(async () => {
  endpoint = await startStandInEndpoint({ record: true, latencyMs: 20, refuses: signedBy(FUNCTION_KEY) });
  environment = await startEnvironment({ awsEnv: { AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME: endpoint.url } });
  const outputs = await environment.deployStack({
    STACK_PREFIX: 'replays',
    SAGEMAKER_ENDPOINT_NAME: ENDPOINT,
    REPLAY_ENDPOINT_NAMES: `${TARGET},other-candidate`,
  });
  monitoring = new DeployedPipeline(environment, 'replays', outputs);
  replays = new DeployedReplay(monitoring);
  // These captures are only replayed. Files that replays write must not start the monitoring.
  await monitoring.disableRule();
  for (const [name, captures] of Object.entries(FILES)) {
    await monitoring.put(
      `${ENDPOINT}/${name}/AllTraffic/2026/11/20/10/a.jsonl`,
      captures.map(({ line }) => line),
    );
  }
  await monitoring.enableRule();
});

afterAll(async () => {
  await environment?.stop();
  await endpoint?.close();
});

const SHARD_SECONDS = 3;
/** Three captures per second for nine seconds, unsorted. */
const CLOCK = Array.from({ length: 27 }, (_, i) => numberedCapture(i, (i * 4) % 9));
/** One capture per second. */
const CLAIMED = Array.from({ length: 9 }, (_, i) => numberedCapture(100 + i, i));
const THROTTLED = Array.from({ length: 6 }, (_, i) => numberedCapture(200 + i, i % 3));
/** Two captures per second for 45 seconds. */
const STOPPED = Array.from({ length: 90 }, (_, i) => numberedCapture(300 + i, i / 2));
const BY_HAND = Array.from({ length: 20 }, (_, i) => numberedCapture(400 + i, i / 2));
const UNPLANNED = [numberedCapture(500, 0)];
const FILES: Record<string, NumberedCapture[]> = {
  clock: CLOCK,
  claimed: CLAIMED,
  throttled: THROTTLED,
  stopped: STOPPED,
  'by-hand': BY_HAND,
  unplanned: UNPLANNED,
};

const inputFor = (name: string, more: object = {}) => ({
  source: { prefix: `${ENDPOINT}/${name}/` },
  target: { endpoint: TARGET },
  shard: { seconds: SHARD_SECONDS },
  ...more,
});
const numbersOf = (captures: readonly NumberedCapture[]): number[] => captures.map(({ number }) => number);
const factsOf = DeployedReplay.facts;
const claimsOf = async (run: string): Promise<string[]> =>
  (await replays.keysUnder(areaOf('replayShards', run))).filter((key) => key.endsWith('/claim.json'));

/** Stops the execution of a replay, as a user does in the console. */
const stop = (executionArn: string) => environment.clients.sfn.send(new StopExecutionCommand({ executionArn }));

/** Waits until the event rule has called SummarizeReplay and the results are written. */
const summarized = (run: string) =>
  replays.until(`the results of ${run}`, async () =>
    (await replayState(replays.storage, replays.outputs.workBucket, run, false)).end === 'summarized'
      ? true
      : undefined,
  );

/** `inference-monitor stop`. */
const stopCommand = (run: string): Promise<CliResult> =>
  runCli(['stop', run, '--stack', replays.prefix], environment.ministack.env);

/** Waits for the children of a replay's Map. The emulator does not stop them with their execution. */
const childrenEnded = (executionArn: string) =>
  replays.until(`the children of ${executionArn}`, async () => {
    const { sfn } = environment.clients;
    const { mapRuns = [] } = await sfn.send(new ListMapRunsCommand({ executionArn }));
    const lists = mapRuns.map(({ mapRunArn }) => sfn.send(new ListExecutionsCommand({ mapRunArn })));
    const children = (await Promise.all(lists)).flatMap(({ executions = [] }) => executions);
    return children.some(({ status }) => status === 'RUNNING') ? undefined : true;
  });

/** The first line of every command's output. */
const STACK = 'captured-endpoint (stack replays)\n';

describe('a replay in three shards, and one with a shard that was started before', () => {
  const [RUN, BEGUN] = ['three-shards', 'begun-before'];
  let outcome: Outcome;
  let begun: Outcome;

  beforeAll(async () => {
    // The claim of a shard that has crashed.
    await monitoring.putWork(claimKey(BEGUN, 1), { run: BEGUN, shard: 1, claimedAtMs: 0 });
    const arns = [
      await replays.start(inputFor('clock'), RUN),
      await replays.start(inputFor('claimed'), BEGUN),
    ] as const;
    [outcome, begun] = await Promise.all([replays.ended(arns[0]), replays.ended(arns[1])]);
  });

  test('succeeds with three shards', async () => {
    expect(factsOf(outcome)).toEqual({ status: 'SUCCEEDED' });
    expect(outcome.output).toEqual({
      ok: true,
      error: '',
      cause: '',
      results: { bucket: replays.outputs.workBucket, prefix: `replays/${RUN}/results/` },
    });
    expect(await claimsOf(RUN)).toEqual([0, 1, 2].map((shard) => claimKey(RUN, shard)));
  });

  test('sends each captured request once, byte for byte, signed, and with its ids', () => {
    const { numbers, requests } = received(endpoint, CLOCK);
    expect(numbers).toEqual(numbersOf(CLOCK));
    expect(requests).toHaveLength(CLOCK.length);
    for (const { body, eventId, contentType, streaming } of CLOCK) {
      const [request, ...more] = requests.filter((one) => one.body.equals(body));
      expect(more).toEqual([]);
      expect(request?.url).toBe(`/endpoints/${TARGET}/invocations${streaming ? '-response-stream' : ''}`);
      expect(request?.headers).toMatchObject({
        'content-type': contentType,
        'x-amzn-sagemaker-custom-attributes': `replay_run=${RUN};event_id=${eventId}`,
        'x-amzn-sagemaker-inference-id': expect.stringMatching(/^replay-[0-9a-f]{48}$/),
        // The endpoint refuses an invalid signature, which would make the replay fail.
        authorization: expect.stringContaining('Credential=000000000000/'),
      });
    }
    const ids = requests.map(({ headers }) => headers['x-amzn-sagemaker-inference-id']);
    expect(new Set(ids).size).toBe(CLOCK.length);
  });

  test('sends each request at its time on the shared clock', async () => {
    const start = await replays.clockStart(RUN);
    const { arrivals } = received(endpoint, CLOCK);
    for (const shard of [0, 1, 2]) {
      const lateness = arrivals.flatMap(({ number, atMs }) => {
        const { second } = CLOCK[number] as NumberedCapture;
        return Math.floor(second / SHARD_SECONDS) === shard ? [atMs - (start + second * 1000)] : [];
      });
      expect(lateness).toHaveLength(CLOCK.length / 3);
      expect(Math.min(...lateness)).toBeGreaterThan(-EARLY_MS);
      expect(Math.min(...lateness)).toBeLessThan(LATE_MS);
    }
  });

  test('calls the shards one after another, and none too early', async () => {
    const manifest = (await replays.text(replayKeys.manifest(RUN))).trim().split('\n');
    const due = manifest.map((line) => Date.parse((JSON.parse(line) as { waitUntil: string }).waitUntil));
    const claims = await Promise.all([0, 1, 2].map((shard) => replays.text(claimKey(RUN, shard))));
    const begun = claims.map((claim) => (JSON.parse(claim) as { claimedAtMs: number }).claimedAtMs);
    expect(due.map((at) => at - (due[0] ?? 0))).toEqual([0, 3000, 6000]);
    begun.forEach((at, shard) => {
      expect(at).toBeGreaterThanOrEqual(due[shard] ?? Number.NaN);
    });
  });

  test('writes the figures of all shards, like a replay in one process', async () => {
    const { records, summary, names } = await replays.results(RUN);
    expect(records.map(({ metadata }) => metadata.event_id).toSorted()).toEqual(
      CLOCK.map(({ eventId }) => eventId).toSorted(),
    );
    expect(records.filter(({ error }) => error !== undefined)).toEqual([]);
    expect(summary).toMatchObject({ is_complete: true, was_cancelled: false, request_count: { avg: 27 } });
    expect(summary.request_latency).toMatchObject({ count: 27, unit: 'ms' });
    expect(names).toEqual(expect.arrayContaining(['profile_export_aiperf.csv', 'replay.json', 'report.html']));
    expect(await replays.text(`${areaOf('replayResults', RUN)}report.html`)).toContain(RUN);
  });

  test('does not send a claimed shard again, and fails with its name', async () => {
    expect(factsOf(begun)).toMatchObject({ status: 'FAILED', error: 'ReplayIncomplete' });
    expect(begun.cause).toMatch(/^shards lost: 1 \(1\), with 3 requests, of which 1 had started/);
    expect(await replays.chunkErrors(begun.arn)).toEqual(['ShardAlreadyClaimed']);
    expect(received(endpoint, CLAIMED).numbers).toEqual([100, 101, 102, 106, 107, 108]);
  });

  test('writes the results of the other shards, marked as incomplete', async () => {
    const { records, summary } = await replays.results(BEGUN);
    const found = records.map(({ metadata }) => metadata.event_id);
    expect(found.toSorted()).toEqual([0, 1, 2, 6, 7, 8].map((i) => `event-${100 + i}`));
    expect(summary).toMatchObject({ is_complete: false, was_cancelled: false, request_count: { avg: 6 } });
  });
});

test('retries a shard until a Lambda is free, and sends it once', async () => {
  await replays.limitConcurrency('replayer', 0);
  let outcome: Outcome;
  try {
    const arn = await replays.start(inputFor('throttled'), 'throttled');
    await replays.until('a shard that was refused twice', async () =>
      (await replays.chunkErrors(arn)).length >= 2 ? true : undefined,
    );
    await replays.limitConcurrency('replayer', null);
    outcome = await replays.ended(arn);
  } finally {
    await replays.limitConcurrency('replayer', null);
  }
  expect(factsOf(outcome)).toEqual({ status: 'SUCCEEDED' });
  expect(new Set(await replays.chunkErrors(outcome.arn))).toEqual(new Set(['Lambda.TooManyRequestsException']));
  expect(received(endpoint, THROTTLED).numbers).toEqual(numbersOf(THROTTLED));
});

describe('stopped replays', () => {
  /** The stopped replay: its execution, when it was stopped, and the requests that had arrived when that was processed. */
  let arn: string;
  let stoppedAtMs: number;
  let arrivedByThen: number[];
  /** The replay that the command stops. */
  let command: CliResult;
  let commandArn: string;
  let unplannedArn: string;

  /** Waits until this many of the captures have reached the endpoint. */
  const arrived = (captures: readonly NumberedCapture[], count: number) =>
    replays.until(`${count} requests`, async () =>
      received(endpoint, captures).numbers.length >= count ? true : undefined,
    );
  const resultsOf = (run: string): string => `s3://${replays.outputs.workBucket}/${areaOf('replayResults', run)}`;

  beforeAll(async () => {
    const stopped = async () => {
      // Of three shards, one is sending when stopped, one may have started, and the last would be called 20 seconds later.
      arn = await replays.start(inputFor('stopped', { shard: { seconds: 18 } }), 'stopped');
      await arrived(STOPPED, 3);
      stoppedAtMs = Date.now();
      await stop(arn);
      await summarized('stopped');
      arrivedByThen = received(endpoint, STOPPED).numbers;
    };
    const byCommand = async () => {
      // Slowed down a hundredfold, so that the last shard would wait for a quarter of an hour.
      const input = inputFor('by-hand', { shard: { seconds: 300 }, speedup: 0.01 });
      commandArn = await replays.start(input, 'by-command');
      await arrived(BY_HAND, 1);
      command = await stopCommand('by-command');
    };
    const unplanned = async () => {
      unplannedArn = await replays.start(inputFor('unplanned'), 'unplanned');
      await stop(unplannedArn);
    };
    await Promise.all([stopped(), byCommand(), unplanned()]);
  });

  test('stop sending within seconds', () => {
    const { arrivals } = received(endpoint, STOPPED);
    // Includes the event, a cold start, three seconds between two checks, and other load on the machine.
    expect(Math.max(...arrivals.map(({ atMs }) => atMs)) - stoppedAtMs).toBeLessThan(20_000);
    expect(arrivedByThen.length).toBeLessThan(STOPPED.length);
  });

  test('do not start later shards', async () => {
    await childrenEnded(arn);
    expect(received(endpoint, STOPPED).numbers).toEqual(arrivedByThen);
    expect(await replays.chunkErrors(arn)).toEqual([]);
    expect(await claimsOf('stopped')).not.toContain(claimKey('stopped', 2));
  });

  test('have results that are marked as canceled, although the execution was aborted', async () => {
    expect(factsOf(await replays.ended(arn))).toMatchObject({ status: 'ABORTED' });
    const { records, summary, names } = await replays.results('stopped');
    const found = records.map(({ metadata }) => metadata.event_id).toSorted();
    expect(found).toEqual(arrivedByThen.map((number) => `event-${number}`).toSorted());
    expect(summary).toMatchObject({ was_cancelled: true, is_complete: false });
    expect(names).toEqual(expect.arrayContaining(['replay.json', 'report.html']));
  });

  test('do not change with a duplicate event, and the command replaces a lost one', async () => {
    const before = await replays.results('stopped');
    await stop(arn);
    const detail = { executionArn: arn, status: 'ABORTED' };
    const { error, payload } = await replays.invoke('replaySummarizer', { detail });
    expect([error, payload]).toEqual([undefined, {}]);
    expect(await replays.results('stopped')).toEqual(before);
    for (const key of [replayKeys.stop('stopped'), areaOf('replayResults', 'stopped')]) await replays.deleteWork(key);
    const made = await stopCommand('stopped');
    expect([made.code, made.stdout, made.stderr]).toEqual([
      0,
      `${STACK}The replay stopped has already ended: ABORTED.\nIts results are missing and were requested.\n${arrivedByThen.length} of 90 requests were sent. Results: ${resultsOf('stopped')}\n`,
      '',
    ]);
    expect(await replays.results('stopped')).toEqual(before);
    expect(received(endpoint, STOPPED).numbers).toEqual(arrivedByThen);
  });

  test('can be stopped by the command, which prints where the results are', async () => {
    expect(factsOf(await replays.ended(commandArn))).toMatchObject({ status: 'ABORTED', error: 'ReplayStopped' });
    const { numbers } = received(endpoint, BY_HAND);
    expect(numbers.length).toBeLessThan(BY_HAND.length);
    const sent = `${numbers.length} of 20 requests were sent. Results: ${resultsOf('by-command')}\n`;
    expect([command.code, command.stdout, command.stderr]).toEqual([
      0,
      `${STACK}${sent}`,
      'Stopping the replay by-command: its shards end within seconds.\n',
    ]);
    const { records, summary } = await replays.results('by-command');
    expect(records).toHaveLength(numbers.length);
    expect(summary).toMatchObject({ was_cancelled: true });
    // A second call has nothing left to do.
    expect(await stopCommand('by-command')).toMatchObject({
      code: 0,
      stdout: `${STACK}The replay by-command has already ended: ABORTED (ReplayStopped).\n${sent}`,
    });
  });

  test('the command reports a successful replay and an unknown name', async () => {
    expect(await stopCommand('three-shards')).toMatchObject({
      code: 0,
      stdout: `${STACK}The replay three-shards has already ended: SUCCEEDED.\n27 of 27 requests were sent. Results: ${resultsOf('three-shards')}\n`,
    });
    expect(await replays.names(replayKeys.stop('three-shards'))).toEqual([]);
    expect(await stopCommand('none of these')).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(
        /^NoSuchRun: There is no run of that name; got: none of these; expected: the name or the ARN of an execution of the last 90 days/,
      ),
    });
  });

  test('send nothing if stopped before planning', async () => {
    await replays.until('the order', async () =>
      (await replays.names(replayKeys.stop('unplanned'))).length > 0 ? true : undefined,
    );
    expect(await stopCommand('unplanned')).toMatchObject({
      code: 0,
      // The planner that runs when its execution stops may still write its plan.
      stdout: expect.stringMatching(
        /^captured-endpoint \(stack replays\)\nThe replay unplanned has already ended: ABORTED\.\n(?:Nothing was sent\.|(?:Its results .* requested\.\n)?0 of 1 requests were sent\. .*)\n$/,
      ),
    });
    expect(received(endpoint, UNPLANNED).numbers).toEqual([]);
    expect(await claimsOf('unplanned')).toEqual([]);
  });
});

describe('replays that send nothing', () => {
  let arrived: number;
  beforeEach(() => {
    arrived = endpoint.arrivals.count;
  });
  afterEach(() => expect(endpoint.arrivals.count).toBe(arrived));

  test('a dry run counts requests', async () => {
    const outcome = await replays.ended(await replays.start(inputFor('clock', { dryRun: true }), 'dry'));
    expect(factsOf(outcome)).toEqual({ status: 'SUCCEEDED' });
    const folder = areaOf('replayResults', 'dry');
    expect(JSON.parse(await replays.text(`${folder}dry-run.json`))).toMatchObject({ requests: 27, seconds: 8 });
    expect(await claimsOf('dry')).toEqual([]);
  });

  test.each<[string, object, string, RegExp]>([
    ['an invalid speed', { speedup: -1 }, 'InvalidReplayInput', /speedup/],
    [
      'an endpoint that the settings do not name',
      { target: { endpoint: ENDPOINT } },
      'EndpointNotAllowed',
      /REPLAY_ENDPOINT_NAMES/,
    ],
    ['captures of another bucket', { source: { bucket: 'elsewhere' } }, 'OutsideCaptureScope', /elsewhere/],
    ['a prefix without captures', { source: { prefix: `${ENDPOINT}/none/` } }, 'NoCaptureFiles', /none/],
  ])('%s: the execution fails with the reason', async (_, more, error, cause) => {
    const outcome = await replays.run(inputFor('clock', more));
    expect(outcome).toMatchObject({ status: 'FAILED', error });
    expect(outcome.cause).toMatch(cause);
  });
});

test('files of replays do not start the monitoring', async () => {
  expect(await replays.names('replays/three-shards/')).not.toEqual([]);
  expect(await replays.monitoringExecutions(monitoring.outputs.stateMachineArn)).toEqual([]);
});

test('its requests were held against AWS’s models', async () => {
  expect(await uncheckedIn('deployed-replay')).toEqual([]);
});
