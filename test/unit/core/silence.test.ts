/**
 * Logs, metrics, causes, receipts and summaries contain only names, counts, ids and places. The tests plant marked texts in
 * every field of captures, in the replies of MLflow, judges and AWS services, and in secrets and headers. They provoke every
 * named error, and search its output for the marks.
 */

import { globSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { inspect } from 'node:util';
import { BedrockClient } from '@aws-sdk/client-bedrock';
import { BedrockRuntimeClient } from '@aws-sdk/client-bedrock-runtime';
import { DynamoDBClient, DynamoDBServiceException } from '@aws-sdk/client-dynamodb';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { S3Client, S3ServiceException } from '@aws-sdk/client-s3';
import { SageMakerRuntimeClient } from '@aws-sdk/client-sagemaker-runtime';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { DescribeExecutionCommand, ExecutionDoesNotExist } from '@aws-sdk/client-sfn';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { confirmed } from '../../../bin/cli/confirm.ts';
import { checkNames } from '../../../bin/cli/names.ts';
import { NewFile } from '../../../bin/cli/new-file.ts';
import { isReplay } from '../../../bin/cli/replays.ts';
import { inputOptions } from '../../../bin/cli/run-options.ts';
import { requireClone } from '../../../bin/commands/calibrate.ts';
import { readGiven } from '../../../bin/commands/calibration-data.ts';
import { checkSelected, tagFilter } from '../../../bin/commands/dataset.ts';
import { deployFile } from '../../../bin/commands/deploy.ts';
import { checkOutputs } from '../../../bin/commands/gate-flags.ts';
import { noLabels } from '../../../bin/commands/ground-truth.ts';
import { inspectLine } from '../../../bin/commands/inspect.ts';
import { instantMs } from '../../../bin/commands/instants.ts';
import { judgeFiles } from '../../../bin/commands/judge-run.ts';
import { withPass } from '../../../bin/commands/label.ts';
import { checkOnePage, requireConsole } from '../../../bin/commands/open.ts';
import { connectPairwiseJudge } from '../../../bin/commands/pairwise-judge.ts';
import { assertNoOptions } from '../../../bin/commands/process-local.ts';
import { ratesReport } from '../../../bin/commands/rates.ts';
import { writableDirectory } from '../../../bin/commands/replay-directory.ts';
import { whatToRetry } from '../../../bin/commands/retry.ts';
import { captureSettings, commandSettings } from '../../../bin/commands/settings.ts';
import { promptOnTerminal } from '../../../bin/init/prompt.ts';
import { captureSource } from '../../../bin/operate/capture-source.ts';
import { findExecution } from '../../../bin/operate/find-execution.ts';
import { findForwarding, sendEvents } from '../../../bin/operate/forwarding.ts';
import { placeLabels } from '../../../bin/operate/place-labels.ts';
import { incomplete, notDeployed, stackPrefix } from '../../../bin/operate/stack-outputs.ts';
import { startExecution } from '../../../bin/operate/start-execution.ts';
import { planUpload } from '../../../bin/operate/upload-captures.ts';
import { plannerDependencies } from '../../../lambda/plan-captures/dependencies.ts';
import { capturedObject } from '../../../src/captures/files/capture-objects.ts';
import { publishToTopic } from '../../../src/core/aws/publish-to-topic.ts';
import { sendToQueue } from '../../../src/core/aws/queue.ts';
import { Storage } from '../../../src/core/aws/storage.ts';
import { namedStorageError } from '../../../src/core/aws/storage-errors.ts';
import { assertContract, CONTRACT } from '../../../src/core/contract/contract.ts';
import type { ChunkRequest } from '../../../src/core/contract/payloads.ts';
import { MAX_SHARDS } from '../../../src/core/contract/replay.ts';
import { replayKeys, workKeys } from '../../../src/core/contract/work-keys.ts';
import { recordedError, toNamedError } from '../../../src/core/errors/errors.ts';
import { logged, logger } from '../../../src/core/process/logging.ts';
import { createMetrics } from '../../../src/core/process/metrics.ts';
import { assertOneEnvironment } from '../../../src/core/settings/dotenv-file.ts';
import {
  type ReplayEnvironment,
  readEnvironment,
  readReplayEnvironment,
} from '../../../src/core/settings/environment.ts';
import { groundTruthSchema } from '../../../src/core/settings/ground-truth-setting.ts';
import { dotenvText, writeNewFile } from '../../../src/core/settings/new-dotenv.ts';
import { simulatedSize } from '../../../src/core/statistics/power.ts';
import { gunzipped } from '../../../src/core/values/gzip.ts';
import { joinLabels } from '../../../src/ground-truth/join/join-labels.ts';
import { readLabelFiles } from '../../../src/ground-truth/labels/read-files.ts';
import { readLabels } from '../../../src/ground-truth/labels/read-labels.ts';
import { readBatchAnswers } from '../../../src/judge/batch/answers.ts';
import { createJudge } from '../../../src/judge/create-judge.ts';
import { afterAnswers, JudgeHeld } from '../../../src/judge/errors.ts';
import { assertModelLives, createModelWatch } from '../../../src/judge/model-check.ts';
import { requireKnownPrice } from '../../../src/judge/pricing/prices.ts';
import { createAlwaysRule } from '../../../src/judge/scorers/always-rules.ts';
import { checkScorers, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { loadApiKey } from '../../../src/judge/transports/api-key.ts';
import { readParameters } from '../../../src/judge/transports/parameters.ts';
import type { Judge, JudgeScorer } from '../../../src/judge/types.ts';
import { Budget } from '../../../src/limits/budget.ts';
import { Lock } from '../../../src/limits/lock.ts';
import { BudgetTable, namedTableError } from '../../../src/limits/table.ts';
import { putToS3, spansStore } from '../../../src/mlflow/artifact-store.ts';
import { createMlflowClient, type MlflowClient } from '../../../src/mlflow/client.ts';
import { mlflowOf } from '../../../src/mlflow/connect.ts';
import { MlflowRefusedError } from '../../../src/mlflow/errors.ts';
import { resolveDataset } from '../../../src/mlflow/evaluation-datasets.ts';
import { traceReply } from '../../../src/mlflow/replies.ts';
import { loadMlflowSecret, parseMlflowSecret } from '../../../src/mlflow/secret.ts';
import { createHttpTransport } from '../../../src/mlflow/transport.ts';
import { countsIn, postToArthur } from '../../../src/monitoring/arthur/arthur.ts';
import { forwardFiles, receiptKey } from '../../../src/monitoring/arthur/forward-files.ts';
import { loadToken } from '../../../src/monitoring/arthur/token.ts';
import { batchAnswers } from '../../../src/monitoring/batch/answers.ts';
import { checkBatch } from '../../../src/monitoring/batch/jobs.ts';
import { withRanges } from '../../../src/monitoring/chunk/ranges.ts';
import { evaluateChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import { logChunk } from '../../../src/monitoring/log/log-chunk.ts';
import { parseInput } from '../../../src/monitoring/plan/input.ts';
import { planCaptures } from '../../../src/monitoring/plan/planner.ts';
import { optionsOfRun } from '../../../src/monitoring/plan/retry-source.ts';
import { unitsOfObjects } from '../../../src/monitoring/plan/units.ts';
import { describeFailure } from '../../../src/monitoring/run-failure.ts';
import { summarizeRun } from '../../../src/monitoring/summarize-run.ts';
import type { RunSummary } from '../../../src/monitoring/summary.ts';
import { withinLimits } from '../../../src/monitoring/within-limits.ts';
import { parseBaseline } from '../../../src/quality/calibration/drift.ts';
import { parseLabels } from '../../../src/quality/calibration/labels-file.ts';
import { pickLabels } from '../../../src/quality/calibration/pick-labels.ts';
import { queueOf } from '../../../src/quality/calibration/review-queue.ts';
import { readObjectives } from '../../../src/quality/objectives.ts';
import { ProgressFile } from '../../../src/replay/cloud/evaluate/progress.ts';
import type { ShardBounds } from '../../../src/replay/cloud/limits.ts';
import { replayTooLarge } from '../../../src/replay/cloud/plan/index-objects.ts';
import { parseReplayInput } from '../../../src/replay/cloud/plan/input.ts';
import { planReplay } from '../../../src/replay/cloud/plan/plan-replay.ts';
import { type Concurrency, stripesOf, WindowCutter } from '../../../src/replay/cloud/plan/sharding.ts';
import { publishReplay } from '../../../src/replay/cloud/publish/publish-replay.ts';
import { claimShard } from '../../../src/replay/cloud/shard/claim.ts';
import { replayShard } from '../../../src/replay/cloud/shard/shard.ts';
import { parseShardResult } from '../../../src/replay/cloud/shard/shard-result.ts';
import { stopReplay } from '../../../src/replay/cloud/stop/stop-replay.ts';
import { cloudTarget } from '../../../src/replay/cloud/target.ts';
import { readSchedule } from '../../../src/replay/cloud/work-bucket/schedule-file.ts';
import { parseLine } from '../../../src/replay/compare/json-lines.ts';
import { parseGateFile, readGateFile } from '../../../src/replay/gate/gate-file.ts';
import { parseThreshold } from '../../../src/replay/gate/thresholds.ts';
import { ConnectionPool } from '../../../src/replay/http/pool.ts';
import { checkOptions, DEFAULT_OPTIONS } from '../../../src/replay/options.ts';
import { writeTraces } from '../../../src/replay/publish/write-traces.ts';
import { LineWriter } from '../../../src/replay/results/line-writer.ts';
import { localFiles } from '../../../src/replay/source/files.ts';
import { RecordReader } from '../../../src/replay/source/record-reader.ts';
import { parseHeaders } from '../../../src/replay/targets/headers.ts';
import { checkHeaders, UrlTarget } from '../../../src/replay/targets/url-target.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { MemoryTable } from '../../doubles/memory-table.ts';
import { type MisbehavingServer, type SeenRequest, startMisbehavingServer } from '../../doubles/misbehaving-server.ts';
import { type ScriptedMlflow, startScriptedMlflow } from '../../doubles/scripted-mlflow.ts';
import { chunkOf } from '../../helpers/chunk-request.ts';
import { index, prediction, stepsOn } from '../../helpers/ground-truth.ts';
import { putPlan } from '../../helpers/planned-run.ts';
import { TEST_VARIABLES, testEnvironment } from '../../helpers/test-environment.ts';
import { captureOf, jsonSide } from '../captures/arbitraries.ts';
import { chatCapture, completionOf, YES_NO_SCORERS } from '../judge/captures.ts';

/** A word that no program uses by itself. */
const MARK = 'Qz7Mark';
let marks = 0;
const mark = (): string => {
  marks += 1;
  return `${MARK}${marks} my number is 078-05-1120`;
};
const TOLD_CAPTURED = /qz7|078-05|UXo3TWFya/i;

const environment = testEnvironment({ DATA_CAPTURE_S3_PREFIX: 'ep/' });

/** The names of the errors that were provoked, including all causes. */
/** A stack whose replays may send to this URL, with the headers of this secret. */
const DOORS = { REPLAY_URLS: ['http://x'], REPLAY_HEADERS_SECRET_ARN: 'arn' } as unknown as ReplayEnvironment;
const provoked = new Set<string>();
let written: string[] = [];
const spies: jest.SpyInstance[] = [];
let server: ScriptedMlflow;
let store: MlflowClient;
const retry = { attempts: 2, baseMs: 1, capMs: 1 };
/** The retry policy of a judge that is asked once. */
const ONCE = { attempts: 1, baseMs: 1, capMs: 1, forMs: 1 };

beforeAll(async () => {
  server = await startScriptedMlflow();
  await wire.start();
  for (const stream of [process.stdout, process.stderr]) {
    spies.push(
      jest.spyOn(stream, 'write').mockImplementation((text: unknown) => {
        written.push(String(text));
        return true;
      }),
    );
  }
});
beforeEach(() => {
  written = [];
  server.fault(() => undefined);
  store = createMlflowClient({ trackingUri: server.url, retry });
});
afterEach(() => store.close());
afterAll(async () => {
  for (const spy of spies) spy.mockRestore();
  await Promise.all([server.stop(), wire.stop()]);
});

function noteNames(error: unknown): void {
  for (let cause = error; cause instanceof Error; cause = cause.cause) provoked.add(cause.name);
}

/** Returns everything that is logged and thrown when a function fails with the error of `work`. */
async function toldOf(work: () => unknown): Promise<string> {
  const handler = logged(async () => {
    try {
      return await work();
    } catch (error) {
      noteNames(error);
      throw error;
    }
  });
  const context = { awsRequestId: 'r', functionName: 'f', memoryLimitInMB: '1', invokedFunctionArn: 'a' };
  const end = await handler({}, context as never).catch((error: unknown) => error);
  const thrown = end instanceof Error ? [inspect(end, { depth: 9, showHidden: true }), toNamedError(end)] : [];
  return JSON.stringify([written, thrown]);
}

/** Returns a capture with a mark in every field that a client, a container or a model can fill. */
function markedCapture(): string {
  const tool = { type: 'function', function: { name: mark(), description: mark(), parameters: { title: mark() } } };
  const call = { id: mark(), type: 'function', function: { name: mark(), arguments: `{"a":"${mark()}"}` } };
  const asked = {
    model: mark(),
    user: mark(),
    metadata: { [mark()]: mark() },
    messages: [
      { role: 'system', content: mark() },
      { role: 'user', name: mark(), content: [{ type: 'text', text: mark() }] },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: mark(), content: mark() },
    ],
    tools: [tool],
    stop: [mark()],
  };
  const reply = {
    id: mark(),
    model: mark(),
    choices: [{ index: 0, message: { role: 'assistant', content: mark(), reasoning: mark() }, finish_reason: mark() }],
    usage: { prompt_tokens: 10, completion_tokens: 5, [mark()]: mark() },
  };
  const record = captureOf(jsonSide('INPUT', asked, 'plain'), jsonSide('OUTPUT', reply, 'plain')) as {
    eventMetadata: Record<string, unknown>;
  };
  record.eventMetadata.customAttributes = [mark()];
  record.eventMetadata.inferenceId = 'id-1';
  return JSON.stringify(record);
}

const PLACES_FOR_CONTENT = /^captures\.jsonl$|^quarantine\/|^answers\//;

/** Runs a chunk of marked captures through both steps and the summary. @returns the logs, receipts and summary */
async function run(
  judge: Judge | undefined,
  lines = [markedCapture(), mark(), `{"captureData":"${mark()}"}`],
): Promise<string> {
  const storage = new MemoryStorage();
  const { bucket, key, etag, size } = storage.put('captures.jsonl', lines.map((line) => `${line}\n`).join(''));
  const place = { bucket, key, etag, objectTimeMs: 1_763_632_800_000 };
  const chunk = chunkOf([{ ...place, start: 0, end: size - 1, firstLine: 1, lines: lines.length }]);
  const options = { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' as const };
  const request: ChunkRequest = { run: 'run', chunk, options, attempt: 0 };
  putPlan(storage, 'run', [[request.chunk]]);
  const deps = { storage: storage.storage, store, environment, requestId: 'r', remainingMs: () => 900_000 };
  const said = [await toldOf(() => logChunk(request, deps))];
  if (judge !== undefined) {
    const scored = { ...deps, judge, scorers: scorersFor(), always: () => undefined };
    said.push(await toldOf(() => evaluateChunk(request, scored)));
  }
  const summary = await summarizeRun(storage.storage, 'work', { name: 'run', startTime: '2026-11-20T09:00:00Z' });
  said.push(JSON.stringify([summary, describeFailure(summary)]));
  for (const [name, bytes] of storage.objects) if (!PLACES_FOR_CONTENT.test(name)) said.push(name, bytes.toString());
  return said.join('\n');
}

const json = (value: unknown) => JSON.stringify(value);

describe('error replies of MLflow are not quoted', () => {
  const sql = () => `(psycopg2.errors.DataError) ${mark()}\n[SQL: INSERT ${mark()}]\n[parameters: {'v': '${mark()}'}]`;
  const BODIES: Record<string, () => string> = {
    'a database error': () => json({ error_code: 'BAD_REQUEST', message: sql(), [mark()]: mark() }),
    'an unknown error code': () => json({ error_code: mark(), message: mark() }),
    'a page': () => `<html><title>${mark()}</title>${mark()}</html>`,
    'JSON in another format': () => json({ experiment: mark(), trace_infos: [{ [mark()]: mark() }], trace: mark() }),
  };
  const [worst = ''] = Object.keys(BODIES);
  const cases = [
    ...Object.keys(BODIES).flatMap((body) => [200, 400, 500].map((status) => ({ status, body }))),
    ...[302, 401, 403, 404, 413, 429, 501].map((status) => ({ status, body: worst })),
  ];

  test.each(cases)('$status with $body', async ({ status, body }) => {
    for (const broken of [/\/v1\/traces$/, /batchGetInfos|experiments/]) {
      server.fault(({ path }) => {
        if (!broken.test(path.split('?')[0] ?? '')) return undefined;
        const headers = { location: `https://login.example/${mark()}`, 'x-amzn-errortype': mark() };
        return { kind: 'reply', status, headers: status === 302 ? headers : {}, body: BODIES[body]?.() ?? '' };
      });
      expect(await run(undefined)).not.toMatch(TOLD_CAPTURED);
    }
  });

  test('an invalid version, and connections that break', async () => {
    server.fault(({ path }) =>
      path === '/version' ? { kind: 'reply', status: 200, body: `2.0${mark()}` } : undefined,
    );
    expect(await run(undefined)).not.toMatch(TOLD_CAPTURED);
    store.close();
    store = createMlflowClient({ trackingUri: server.url, retry });
    server.fault(({ path }) => (path === '/v1/traces' ? { kind: 'cut' } : undefined));
    expect(await run(undefined)).not.toMatch(TOLD_CAPTURED);
  });
});

describe('replies of a judge are not quoted', () => {
  const answered = (content: string, more: object = {}) => ({
    choices: [{ index: 0, message: { role: 'assistant', content, ...more }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 500, completion_tokens: 50 },
  });
  const verdict = (value: unknown) => json({ safety: { rationale: mark(), value } });
  const SAYS: Record<string, () => Response> = {
    'a verdict for only one question': () => Response.json(answered(verdict('yes'))),
    'invalid values': () => Response.json(answered(verdict(mark()))),
    prose: () => Response.json(answered(mark())),
    'an answer that is truncated': () =>
      Response.json({ choices: [{ message: { content: verdict('yes').slice(0, -9) }, finish_reason: 'length' }] }),
    'an answer that is filtered': () =>
      Response.json({ choices: [{ message: { content: mark() }, finish_reason: 'content_filter' }] }),
    'impossible usage': () => Response.json({ ...completionOf({ prompt_tokens: mark(), completion_tokens: -1 }) }),
    'no chat completion': () => Response.json({ [mark()]: mark(), choices: [{ message: mark() }] }),
    'a page': () => new Response(`<html>${mark()}</html>`),
    'truncated JSON': () => new Response(`{"choices":[{"message":{"content":"${mark()}`),
    'a redirect': () =>
      new Response(mark(), { status: 307, headers: { location: `https://x.example/${mark().replaceAll(' ', '')}` } }),
    ...Object.fromEntries(
      [400, 401, 403, 404, 408, 413, 422, 429, 500, 503].map((status) => [
        `HTTP ${status}`,
        () => new Response(json({ error: { message: `invalid prompt: ${mark()}`, code: mark() } }), { status }),
      ]),
    ),
    'no reply': () => {
      throw new TypeError(mark(), { cause: new Error(mark()) });
    },
  };
  const quick = { attempts: 2, baseMs: 1, capMs: 1, forMs: 5 };

  test.each(Object.keys(SAYS))('%s', async (name) => {
    // One capture gets valid verdicts first. They are stored, and quote the capture.
    let calls = 0;
    const fetch = async () => {
      calls += 1;
      return calls === 1 ? Response.json(answered(verdict('yes'))) : (SAYS[name]?.() ?? new Response());
    };
    for (const how of ['together', 'separate'] as const) {
      calls = 0;
      const judge = createJudge({
        model: 'openai:/x',
        baseUrl: 'http://judge/v1',
        apiKey: 'sk-Qz7Mark',
        calls: how,
        fetch: fetch as never,
        retry: quick,
      });
      const lines = [markedCapture(), markedCapture()];
      server.expect([]);
      await expectSilent(judge, lines);
    }
  });

  const awsErrors = [
    'ValidationException',
    'ThrottlingException',
    'AccessDeniedException',
    'ModelErrorException',
    'ExpiredTokenException',
    'ModelTimeoutException',
  ];
  test.each(awsErrors)('%s of Bedrock', async (name) => {
    const client = {
      send: async () => {
        throw Object.assign(new Error(`The value '${mark()}' ${mark()}`), {
          name,
          $metadata: { httpStatusCode: name === 'ThrottlingException' ? 429 : 400 },
          $response: { body: mark(), headers: { 'retry-after': '0' } },
        });
      },
    };
    await expectSilent(createJudge({ model: 'm', clients: { bedrockRuntime: client as never }, retry: quick }), [
      markedCapture(),
    ]);
  });

  test('a guardrail that intervenes', async () => {
    const output = { message: { role: 'assistant', content: [{ text: mark() }] } };
    const client = { send: async () => ({ output, stopReason: 'guardrail_intervened', usage: {} }) };
    await expectSilent(createJudge({ model: 'm', clients: { bedrockRuntime: client as never }, retry: quick }), [
      markedCapture(),
    ]);
  });

  /** Runs with an MLflow that has all traces. */
  async function expectSilent(judge: Judge, lines: string[]): Promise<void> {
    const all = new Map<string, object>();
    const everything = {
      ...store,
      getExperiment: async () => ({ id: '7', name: 'e', artifactLocation: 's3://x' }),
      getTraces: async (_: string, ids: readonly string[]) => {
        for (const traceId of ids) all.set(traceId, { traceId, assessments: [] });
        return all;
      },
      writeTraces: async () => ({ written: [], alreadyThere: [], bare: [], refused: [] }),
      writeAssessments: async (_: unknown, assessments: readonly { assessmentId: string }[]) => ({
        written: assessments.map(({ assessmentId }) => assessmentId),
        alreadyThere: [],
      }),
    };
    const real = store;
    store = everything as never;
    try {
      const said = await run(judge, lines);
      expect(said).toContain('"step":"evaluate"');
      expect(said).not.toMatch(TOLD_CAPTURED);
    } finally {
      store = real;
    }
  }
});

/** An error reply of AWS over the network: from a service, a gateway, or another page. */
interface Said {
  status: number;
  code: string;
  /** Default: in the format of the service. */
  as?: 'page' | 'cut';
}

class AwsWire {
  #server: MisbehavingServer | undefined;
  #said: Said = { status: 500, code: 'x' };
  asked = 0;

  async start(): Promise<void> {
    const rule = ({ headers }: SeenRequest) => {
      this.asked += 1;
      const { status, code, as } = this.#said;
      const isXml = headers.authorization?.includes('/s3/') === true;
      const service = isXml
        ? `<Error><Code>${code}</Code><Message>${mark()}</Message><Key>${mark()}</Key></Error>`
        : json({ __type: code, message: mark(), Message: mark(), OriginalMessage: mark(), [MARK]: mark() });
      const body =
        as === 'page' ? `<html><title>${mark()}</title></html>` : as === 'cut' ? service.slice(0, -9) : service;
      const type = as === 'page' ? 'text/html' : isXml ? 'application/xml' : 'application/json';
      const named: Record<string, string> = as === undefined && !isXml ? { 'x-amzn-errortype': code } : {};
      return { kind: 'reply', status, body, headers: { 'content-type': type, 'x-amz-id-2': MARK, ...named } } as const;
    };
    this.#server = await startMisbehavingServer({ rule });
  }

  stop = async (): Promise<void> => this.#server?.stop();

  get client() {
    const credentials = { accessKeyId: 'a', secretAccessKey: MARK };
    return { endpoint: this.#server?.url ?? '', region: 'eu-west-1', credentials, maxAttempts: 1 };
  }

  /** Makes all clients fail, including those that the code creates itself. */
  fails<T>(said: Said, work: () => T | Promise<T>): Promise<T> {
    this.#said = said;
    const keys = { AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: MARK };
    const rest = { AWS_REGION: 'eu-west-1', AWS_ENDPOINT_URL: this.#server?.url ?? '', AWS_MAX_ATTEMPTS: '1' };
    return withVariables({ ...keys, ...rest }, work);
  }
}
const wire = new AwsWire();

async function withVariables<T>(variables: Record<string, string | undefined>, work: () => T | Promise<T>): Promise<T> {
  const before = Object.fromEntries(Object.keys(variables).map((name) => [name, process.env[name]]));
  const set = (all: typeof variables): void => {
    for (const [name, value] of Object.entries(all)) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  };
  set({ ...variables, AWS_EC2_METADATA_DISABLED: 'true' });
  try {
    return await work();
  } finally {
    set(before);
  }
}

const STOPPED = {
  detail: { executionArn: 'arn:aws:states:eu-west-1:123456789012:execution:replays:r', status: 'ABORTED' as const },
};

/** Stops a replay by the deployed handler, whose requests to S3 and to the other function fail. */
const stopByFunction = (): Promise<unknown> =>
  withVariables(TEST_VARIABLES, async () => {
    const { handler } = await import('../../../lambda/stop-replay/handler.ts');
    return handler(STOPPED, { getRemainingTimeInMillis: () => 900_000 } as never);
  });

/** Stops a replay with a running shard when the function has no time left. */
function stopInVain(): Promise<unknown> {
  const storage = new MemoryStorage();
  storage.put(replayKeys.plan('r'), { contract: CONTRACT, outcome: 'planned', shards: [{}], mlflow: null });
  storage.put(replayKeys.claim('r', 0), mark());
  storage.writtenMs.set(replayKeys.claim('r', 0), Date.now());
  const none = async (): Promise<never> => undefined as never;
  const functions = { summarize: none, publish: none, endRun: none };
  return stopReplay(STOPPED, { ...functions, storage: storage.storage, workBucket: 'w', remainingMs: () => 0 });
}

describe('error replies of AWS are not quoted', () => {
  const inS3 = () => {
    const storage = new Storage(new S3Client({ ...wire.client, forcePathStyle: true }));
    const object = { bucket: 'b', key: 'k', etag: 'e', size: 9 };
    return { storage, object };
  };
  const CALLS: Record<string, () => unknown> = {
    'S3, reading a file': async () => {
      const { storage, object } = inS3();
      for await (const _ of await storage.read(object));
    },
    'S3, reading state': () => inS3().storage.getJson('b', 'k'),
    'S3, writing': () => inS3().storage.putJson('b', 'k', { [MARK]: mark() }),
    'S3, writing with a condition': () => inS3().storage.putJsonIf('b', 'k', { [MARK]: mark() }, 'e'),
    'S3, reading metadata': () => inS3().storage.head('b', 'k'),
    'S3, listing': async () => {
      for await (const _ of inS3().storage.list('b', 'p'));
    },
    'S3, the artifacts of MLflow': () => putToS3(inS3().storage.s3, 'b', 'k', Buffer.from(mark())),
    DynamoDB: () =>
      new Budget({ table: new BudgetTable(new DynamoDBClient(wire.client), 't'), run: 'r', dailyUsd: 1 }).reserve(0.1),
    'Secrets Manager, the judge’s key': () => loadApiKey(new SecretsManagerClient(wire.client), 'arn'),
    'Secrets Manager, MLflow’s password': () => loadMlflowSecret(new SecretsManagerClient(wire.client), 'arn'),
    'Secrets Manager, headers': () => cloudTarget({ url: 'http://x', headersSecretArn: 'arn' }, DOORS),
    'S3 and Lambda, stopping a replay': stopByFunction,
    'Step Functions, describing an execution': () => plannerDependencies(environment).isRunning('arn', 0),
    'Bedrock, the model': async () => {
      const watch = createModelWatch(
        'bedrock:/anthropic.claude-x',
        (error) => {
          throw error;
        },
        new BedrockClient(wire.client),
      );
      assertModelLives(await watch());
    },
    'Bedrock, a batch job': () => startedOn(new BedrockClient(wire.client)),
    'Bedrock, the judge': () =>
      createJudge({
        model: 'm',
        clients: {
          bedrockRuntime: new BedrockRuntimeClient({ ...wire.client, requestHandler: new NodeHttpHandler() }),
        },
        retry: ONCE,
      }).judge(chatCapture({ user: mark() }), YES_NO_SCORERS),
    'SageMaker, the judge': () =>
      createJudge({
        model: 'sagemaker:/judge',
        clients: { sagemakerRuntime: new SageMakerRuntimeClient(wire.client) },
        retry: ONCE,
      }).judge(chatCapture({ user: mark() }), YES_NO_SCORERS),
  };
  const SAID: Said[] = [
    { status: 400, code: 'ValidationException' },
    { status: 400, code: 'ExpiredTokenException' },
    { status: 400, code: MARK },
    { status: 403, code: 'AccessDenied' },
    { status: 403, code: 'AccessDeniedException', as: 'cut' },
    { status: 403, code: 'InvalidObjectState' },
    { status: 404, code: 'NoSuchBucket' },
    { status: 404, code: 'ResourceNotFoundException', as: 'page' },
    { status: 424, code: 'ModelErrorException' },
    { status: 429, code: 'ThrottlingException' },
    { status: 500, code: MARK },
    { status: 503, code: 'SlowDown', as: 'page' },
    { status: 200, code: MARK, as: 'page' },
    { status: 200, code: MARK },
  ];

  test.each(Object.keys(CALLS))('%s', async (name) => {
    const before = wire.asked;
    for (const said of SAID) {
      written = [];
      const told = await toldOf(() => wire.fails(said, () => CALLS[name]?.()));
      expect({ ...said, told }).toEqual({ ...said, told: expect.not.stringMatching(TOLD_CAPTURED) });
    }
    expect(wire.asked).toBeGreaterThanOrEqual(before + SAID.length);
  });
});

test('metrics contain names and numbers', () => {
  const metrics = createMetrics('test');
  metrics.addMetric('TracedLines', 'Count', 1);
  metrics.publishStoredMetrics();
  expect(written.join('')).toContain('TracedLines');
  expect(written.join('')).not.toMatch(TOLD_CAPTURED);
});

const s3 = (name: string, status?: number) =>
  new S3ServiceException({ name, $fault: 'client', message: mark(), $metadata: { httpStatusCode: status ?? 500 } });
const failing = (error: unknown) => ({
  send: async () => {
    throw error;
  },
});
const aws = (name: string, status: number) =>
  Object.assign(new Error(mark()), { name, $metadata: { httpStatusCode: status } });
const tableSays = (name: string) =>
  new DynamoDBServiceException({ name, $fault: 'client', message: mark(), $metadata: { httpStatusCode: 400 } });
const memory = () => new MemoryStorage().storage;

const truthSettings = groundTruthSchema.parse({});
const labelFault = (text: string, name = 'f.csv') =>
  readLabels(Readable.from([Buffer.from(text)]), { name, timeMs: 0 }, truthSettings).next();
async function joinTooMany() {
  const storage = new MemoryStorage();
  storage.put('labels.jsonl', `{"id":"a","label":"${mark()}"}`);
  await index(storage.storage, [prediction('a')]);
  await readLabelFiles({ bucket: 'b', key: 'labels.jsonl' }, null, stepsOn(storage.storage));
  return joinLabels(
    '{"after":"","attempts":1}',
    stepsOn(storage.storage, {}, () => 0),
  );
}
/** A label file without a line that ends. */
async function* endless(): AsyncGenerator<Buffer> {
  const piece = Buffer.alloc(2 ** 24, 'a');
  for (;;) yield piece;
}
const secretOf = (text: string) => ({ send: async () => ({ SecretString: text }) }) as never;
const at = { bucket: 'b', key: 'ep/a.jsonl', etag: 'e' };
const scope = { bucket: 'b', prefix: 'ep/' };
const judgeAnswers = (status: number, signal?: AbortSignal) =>
  createJudge({
    model: 'openai:/x',
    baseUrl: 'http://judge/v1',
    retry: ONCE,
    fetch: (async () => new Response(mark(), { status })) as never,
  }).judge(chatCapture({ user: mark() }), YES_NO_SCORERS, signal);
const mlflowAnswers = (status: number, body: unknown) => {
  server.fault(() => ({ kind: 'reply', status, body: json(body) }));
  return store.resolveExperiment('e');
};
const experiment = (artifactLocation: string) => ({ id: '7', name: 'e', artifactLocation });
const chunkRequest = (run = 'run') =>
  ({ run, attempt: 0, options: {}, chunk: { ...at, chunk: 0, start: 0, end: 1, firstLine: 1, lines: 1 } }) as never;
const withJob = (status: string) => {
  const storage = new MemoryStorage();
  storage.put(workKeys.batchPrepared('run', 0), { records: 1, deposits: [], held: [] });
  storage.put(workKeys.batchJobs('run'), {
    jobs: [{ arn: '', group: 0, records: 1, status, files: [0] }],
    converse: [],
  });
  const deps = {
    storage: storage.storage,
    workBucket: 'work',
    limit: undefined,
    judge: {} as never,
    priceOf: () => 0,
  };
  return batchAnswers(chunkRequest(), deps).then((answers) => answers.of('q', { chunk: undefined, isRead: false }));
};
const takingUploads = (storage: MemoryStorage): Storage => {
  const s3Client = new S3Client({ region: 'eu-west-1' });
  s3Client.send = (async () => ({})) as never;
  return Object.assign(storage.storage, { s3: s3Client });
};
const startOf = (error: unknown) => startedOn(failing(error) as never);
const startedOn = (bedrock: BedrockClient) => {
  const storage = new MemoryStorage();
  putPlan(storage, 'run', [[chunkOf([])]]);
  storage.put(workKeys.batchPrepared('run', 0), {
    records: 100,
    deposits: [],
    held: [],
  });
  const deps = { workBucket: 'work', bedrock, modelId: 'm', roleArn: 'r', pollSeconds: 1 };
  const all = { storage: takingUploads(storage), ...deps };
  return checkBatch('run', all);
};

/** Posts a file to an Arthur that answers so. */
const arthurSays = (status: number, as?: Said['as']) =>
  wire.fails({ status, code: MARK, as }, async () => {
    const file = { key: 'a.jsonl', size: 0, content: Readable.from([]) };
    const arthur = { host: wire.client.endpoint, model: 'm' };
    return countsIn(await postToArthur(createHttpTransport(), arthur, 'token', file, 9_000));
  });

/** Forwards a file while another function does. @returns what is logged */
async function forwardTwice(): Promise<unknown> {
  const storage = new MemoryStorage();
  const file = { bucket: 'b', key: 'ep/a.jsonl', etag: 'e' };
  storage.put(receiptKey(file), { key: file.key, state: 'sending', untilMs: Date.now() + 60_000 });
  const body = json({ detail: { bucket: { name: file.bucket }, object: file } });
  const spy = jest.spyOn(logger, 'error').mockImplementation();
  const deps = { storage: storage.storage, workBucket: 'w', scope, remainingMs: () => 1, later: async () => {} };
  await forwardFiles([{ body, attributes: {} }] as never, deps as never);
  const [, facts] = spy.mock.calls[0] ?? [];
  spy.mockRestore();
  return Promise.reject((facts as unknown as { error: Error }).error);
}

/** Has a lock in a function that stands still for a minute whenever it asks for the time. */
async function lockAt(owner: string, beginBy: number): Promise<void> {
  let now = 0;
  const clock = {
    now: () => {
      now += 60_000;
      return now;
    },
    sleep: () => new Promise<void>((resolve) => setImmediate(resolve)),
  };
  const table = new BudgetTable(new MemoryTable().client, 't');
  await new Lock({ table, owner: 'other', clock }).take('n', 1_000_000);
  await new Lock({ table, owner, clock }).during(['n'], async (assertHeld) => assertHeld(), beginBy);
}

/** Provokes each named error that the pipelines above do not. */
const PROVOKE: Record<string, () => unknown> = {
  ArthurAnswerUnreadable: () => arthurSays(200, 'page'),
  ArthurRefused: () => arthurSays(400),
  ArthurSecretUnreadable: () => wire.fails({ status: 400, code: 'ResourceNotFoundException' }, () => loadToken('arn')),
  ArthurThrottled: () => arthurSays(429),
  ArthurTooLarge: () => arthurSays(413, 'page'),
  ArthurUnauthorized: () => arthurSays(401),
  ArthurUnavailable: () => arthurSays(503, 'cut'),
  ForwardBusy: forwardTwice,
  NothingForwarded: () =>
    wire.fails({ status: 404, code: 'ResourceNotFoundException' }, () =>
      findForwarding(new LambdaClient(wire.client), 'p'),
    ),
  EventsNotSent: () => {
    const body = json({ Failed: [{ Id: '0', Code: 'InternalError', Message: mark() }] });
    const handle = async () => ({ response: { statusCode: 200, body: Readable.from([body]) } });
    const config = { ...wire.client, region: async () => 'eu-west-1', requestHandler: { handle } };
    const file = { bucket: 'b', key: mark(), etag: 'e', size: 1, lastModifiedMs: 0 };
    return sendEvents(
      { config } as never,
      'q',
      (async function* () {
        yield file;
      })(),
      () => {},
    );
  },
  QueueUnavailable: () =>
    wire.fails({ status: 500, code: MARK }, () => sendToQueue('http://q/1/q', mark(), { name: mark() })),
  BucketMissing: () => Promise.reject(namedStorageError(s3('NoSuchBucket', 404), 's3://b')),
  BudgetAccessDenied: () => Promise.reject(namedTableError(tableSays('AccessDeniedException'), 't', 's')),
  BudgetRefused: () => Promise.reject(namedTableError(tableSays('ValidationException'), 't', 's')),
  DotenvExists: () => writeNewFile('package.json', ''),
  DotenvImpossible: () => dotenvText('A=', { A: `${mark()}\n'"\`` }),
  CappedReplayTooLong: () => cutInTwo({}, { requests: 1, kept: false }),
  CdkMissing: () => deployFile('aws-cdk-lib/none', []),
  MixedEnvironments: () =>
    withVariables({ INFERENCE_MONITOR_LOCAL: 'http://127.0.0.1:1' }, async () => assertOneEnvironment()),
  CaptureArchived: () => Promise.reject(namedStorageError(s3('InvalidObjectState', 403), 's3://b')),
  CaptureChanged: () => new Storage(failing(s3('PreconditionFailed', 412)) as never).read(at),
  CaptureFileTooLarge: scanForEver,
  CaptureMissing: () => capturedObject(memory(), scope, 'b', 'ep/a.jsonl'),
  CaptureUnreadable: () => {
    const files = [{ name: 'f', path: '/dev/null/x', size: 9 }];
    return new RecordReader(files as never).read({ timeMs: 0, file: 0, line: 1, start: 0, length: 5 });
  },
  ChunkOutOfTime: () => judgeAnswers(200, AbortSignal.abort(new Error(mark()))),
  ContractChanged: () => assertContract({ contract: 0 }, 's3://b'),
  CredentialsExpired: () => Promise.reject(namedStorageError(s3('ExpiredToken', 400), 's3://b')),
  LockTaken: () => lockAt('me', 0),
  LockLost: () => lockAt('me', Number.POSITIVE_INFINITY),
  FileUnreadable: () => readGiven('/dev/null/x', 'The file'),
  GateFileUnreadable: () => readGateFile('/dev/null/x'),
  HeadersUnavailable: () =>
    wire.fails({ status: 400, code: 'ResourceNotFoundException' }, () =>
      cloudTarget({ url: 'http://x', headersSecretArn: 'arn' }, DOORS),
    ),
  InvalidAlwaysRules: () => createAlwaysRule([{}], []),
  InvalidName: () => resolveDataset({} as never, 'e', `it's`),
  InvalidTag: () => tagFilter('no value'),
  InvalidObjectives: () => readObjectives([{}], { scorers: [], sampleRate: 1 }),
  InvalidBaseline: () => parseBaseline(`{"${mark()}"`, 'f'),
  InvalidBound: () => simulatedSize(() => 0, 0, { start: 1 }),
  InvalidEnvironment: () => readEnvironment({}),
  InvalidGateFile: () => parseGateFile('thresholds: 1', 'f'),
  InvalidGateOptions: () => checkOutputs({ junit: 'x' }, []),
  InvalidHeader: () => parseHeaders(`{"x":"${mark()}`, 'arn'),
  InvalidInput: () => parseInput([]),
  InvalidJudge: () => createJudge({ model: 'other:/x' }),
  InvalidLabels: () => parseLabels(`{"request":"${mark()}`, 'f', []),
  InvalidModelParameters: () => readParameters({ temperature: 'hot' }),
  InvalidReplayInput: () => parseReplayInput([], {} as never),
  InvalidReplayOptions: () => checkOptions({ ...DEFAULT_OPTIONS, speedup: 0 }),
  InvalidSchedule: () => readSchedule('{"f":5}', 'f'),
  InvalidScorers: () => checkScorers([{ ...YES_NO_SCORERS[0], question: '' } as never]),
  InvalidSettings: () => commandSettings({}, { JUDGE_CALLS: 'no' }),
  InvalidTarget: () => new UrlTarget('ftp://x'),
  InvalidThreshold: () => parseThreshold('no'),
  InvalidTime: () => instantMs('yesterday', 0),
  MlflowDatasetsMissing: () => {
    const missing = new MlflowRefusedError('refused', { status: 404, got: 'HTTP 404', where: 'POST /' });
    return resolveDataset({ repeat: () => Promise.reject(missing) } as never, 'e', 'name');
  },
  NoConsole: () => requireConsole(undefined),
  NothingSelected: () => checkSelected([]),
  TwoPages: () => checkOnePage('tr-1', { dashboard: true }),
  JudgeBatchFailed: () => withJob('Failed'),
  JudgeBatchRefused: () => withJob('Refused'),
  JudgeCredentialsMissing: judgeWithoutCredentials,
  JudgeHeld: () =>
    Promise.reject(afterAnswers(new JudgeHeld(), { spend: {} as never, verdicts: [{ rationale: mark() }] as never })),
  JudgeModelGone: () => assertModelLives({ level: 'error', message: 'gone', model: 'm' } as never),
  JudgePriceUnknown: () => requireKnownPrice('unknown', 5),
  JudgeRefused: () => judgeAnswers(401),
  JudgeSecretUnreadable: () => loadApiKey(secretOf(`{"api_key":${mark()}`), 'arn'),
  JudgeThrottled: () => judgeAnswers(429),
  JudgeUnavailable: () => startOf(aws('InternalServerException', 500)),
  RetriesUsedUp: () => withinLimits({}, { attempt: 999 } as never, () => judgeAnswers(429)),
  RangesMissing: () => withRanges(new MemoryStorage().storage, 'work', { ...chunkOf([]), rangesIn: 'gone' }),
  LabelSchemaUnfit: () =>
    queueOf(
      {
        repeat: async () => ({ label_schema: { schema_id: '1', input: { categorical: { options: [mark()] } } } }),
      } as never,
      '7',
      YES_NO_SCORERS[0] as JudgeScorer,
    ),
  LineCountMismatch: () => run(undefined).then(() => logShort()),
  MessageNotSent: () =>
    publishToTopic('arn:aws:sns:eu-west-1:123456789012:t', { subject: mark(), body: { default: mark() } }),
  MlflowArtifactAccessDenied: () => putToS3(failing(s3('AccessDenied', 403)) as never, 'b', 'k', Buffer.from(mark())),
  MlflowArtifactStoreUnsupported: () => spansStore(store.rest, experiment('gs://x'), undefined),
  MlflowBadReply: () => mlflowAnswers(200, mark()),
  MlflowCredentialsMissing: () => createMlflowClient({ trackingUri: ARN }),
  MlflowExperimentDeleted: () =>
    mlflowAnswers(200, { experiment: { experiment_id: '7', name: 'e', lifecycle_stage: 'deleted' } }),
  MlflowExperimentMissing: () => {
    server.fault(() => ({ kind: 'reply', status: 404, body: json({ error_code: 'RESOURCE_DOES_NOT_EXIST' }) }));
    return store.getExperiment('7');
  },
  MlflowNotStored: () => {
    server.fault(() => ({ kind: 'reply', status: 200, body: mark() }));
    return store.rest.write({ method: 'POST', path: '/x', json: {} }, traceReply, 'tr-0');
  },
  MlflowRefusesAll: () => run(undefined, Array.from({ length: 25 }, markedCapture)),
  MlflowS3ClientMissing: () => spansStore(store.rest, experiment('s3://x'), undefined),
  MlflowSecretInvalid: () => parseMlflowSecret(`{"username":"${mark()}`, 'arn'),
  MlflowSecretUnreadable: () => loadMlflowSecret(failing(aws('AccessDeniedException', 400)) as never, 'arn'),
  MlflowTrackingUriInvalid: () => createMlflowClient({ trackingUri: `http://u:${MARK}@x` }),
  MlflowTrackingUriMissing: () => mlflowOf({}),
  NoCounts: () => ratesReport(memory(), 'w', { from: '1d' }, { active: [], nowMs: 0 }),
  LabelsMissing: () => placeLabels(memory(), 'w', '/no-such-labels.csv'),
  NoLabels: () => noLabels({ storage: memory(), outputs: {} } as never, {}),
  NoSuchRun: () => findExecution(stepFunctions(undefined), MACHINES, 'r'),
  AmbiguousRun: () => findExecution(stepFunctions({ executionArn: 'arn' }), MACHINES, 'r'),
  AmbiguousSource: () => captureSource(captured('bin/a.jsonl'), watched, 'bin', {}),
  NoCaptures: () => captureSource(captured(), watched, 'ep/', {}),
  OtherEndpoint: () => planUpload(captured(), watched, savedCapture('other')),
  CaptureInTheWay: () => planUpload(captured('ep/AllTraffic/2026/11/20/10/a.jsonl'), watched, savedCapture('ep')),
  OptionsContradict: async () => inputOptions({ evaluate: false, budget: 1 }),
  OptionsNeedCaptures: async () => assertNoOptions({ name: 'n' }, { fresh: [] }),
  InvalidRunName: () => startExecution(stepFunctions({}), 'machine', { bucket: 'b', prefix: '' }, 'a b'),
  NotAMonitoringRun: () => Promise.reject(isReplay('r')),
  FileExists: () => NewFile.open(savedCapture('ep')),
  FileUnwritable: () => NewFile.open('/no-such-folder/lines.jsonl'),
  RunGoesOn: async () => whatToRetry({ run: 'r', status: 'running' }, undefined),
  NothingToRetry: async () => whatToRetry(leaving(0), undefined),
  RetryUnclear: async () => whatToRetry(leaving(1), undefined),
  NoCaptureFiles: () => localFiles(mkdtempSync(join(tmpdir(), 'silence-'))),
  NoTerminal: () => promptOnTerminal({ stdin: {}, stderr: {} } as never),
  NoClone: () => requireClone(tmpdir()),
  NotACapture: replayedNoCapture,
  NotACaptureFile: () => capturedObject(memory(), scope, 'b', 'ep/a.txt'),
  NotALabelFile: () => readLabelFiles({ bucket: 'b', key: 'labels.txt' }, null, stepsOn(memory())),
  NoIdColumn: () => labelFault('date,label\n1,2\n'),
  NoLabelColumn: () => labelFault('id,date\n1,2\n'),
  NotJsonLines: () => labelFault(`[{"id":"${mark()}"}]`, 'f.jsonl'),
  NotUtf8: () => labelFault(`i\0d\0${mark()}`),
  LabelFileTooLarge: () => readLabels(endless(), { name: 'f.csv', timeMs: 0 }, truthSettings).next(),
  TooManyPredictions: () => joinTooMany(),
  NotGzip: () => gunzipped(Readable.from([Buffer.from(mark())]), 's3://b/k').next(),
  NotAReplay: () => parseLine(Buffer.from(`{"a":${mark()}`), 'f'),
  NothingToLabel: () =>
    pickLabels({ repeat: async () => ({ traces: [], items: [], review_queue: { queue_id: 'q' } }) } as never, {
      experimentId: '7',
      filter: mark(),
      scorer: YES_NO_SCORERS[0] as JudgeScorer,
      next: 2,
    }),
  OutputUnusable: () => writableDirectory('/dev/null/x'),
  OutsideCaptureScope: () => capturedObject(memory(), scope, 'b', 'other/a.jsonl'),
  ReplayNotPlanned: () => replayShard({ run: 'r', shard: 0 } as never, { storage: memory(), environment } as never),
  ReplayNotSummarized: () =>
    publishReplay({ run: { name: 'r' } } as never, { storage: memory(), workBucket: 'w', mlflow: async () => store }),
  ReplayStopped: planStopped,
  ReplayTooLarge: () => Promise.reject(replayTooLarge('a', 'b')),
  ResultsNotWritten: () => {
    const writer = new LineWriter('/dev/null/x');
    writer.write(mark());
    return writer.close();
  },
  RunNameNotForBatch: planForBatch,
  RunNameTaken: planAgain,
  UnknownName: () => checkNames('scorer', ['x'], ['y']),
  LineMissing: () => inspectLine('test/corpus/chat.jsonl', 9_999, captureSettings({}, {})),
  NoScorer: () =>
    judgeFiles('-', { judge: 'none', scorer: ['safety'], limit: 1, budget: 1 }, new AbortController().signal, {}),
  NotConfirmed: () => confirmed('Go on?', false),
  RunUnknown: () => optionsOfRun(memory(), 'w', { run: 'r', what: 'failed' }),
  ScorerWithoutPass: () =>
    withPass({ name: 'n', question: mark(), values: { kind: 'number', min: 0, max: 1 } } as never),
  ShardAlreadyClaimed: async () => {
    const storage = memory();
    for (const at of [1, 2]) await claimShard(storage, 'w', { run: 'r', shard: 0, claimedAtMs: at });
  },
  ShardFileMissing: () => new ProgressFile(memory(), 'w', { run: 'r', shard: 0 } as never).lines('x'),
  ShardResultInvalid: () => parseShardResult(`{"report":"${mark()}`, 'f'),
  ShardsUnderWay: stopInVain,
  StackIncomplete: () => Promise.reject(incomplete('p', ['x'])),
  StackNotDeployed: () => Promise.reject(notDeployed('p', 'us-east-1', ['q'])),
  StackPrefixMissing: () => stackPrefix('', {}),
  SourceMissing: () => localFiles('/dev/null/x'),
  StorageAccessDenied: () => Promise.reject(namedStorageError(s3('AccessDenied', 403), 's3://b')),
  StorageRefused: () => Promise.reject(namedStorageError(s3('InvalidRequest', 400), 's3://b')),
  StorageThrottled: () => Promise.reject(namedStorageError(s3('SlowDown', 503), 's3://b')),
  StorageUnavailable: () => Promise.reject(namedStorageError(s3('InternalError', 500), 's3://b')),
  AddressNotAllowed: () =>
    new ConnectionPool({ tls: false, hostname: '127.0.0.1', port: 1, refuses: () => true }).open(),
  TargetUnreachable: () => new ConnectionPool({ tls: false, hostname: '127.0.0.1', port: 1 }).open(),
  TooManyRequests: () => stripesOf(windowOf(1000), SHARD_BOUNDS, { requests: 1, kept: false }),
  TooManyShards: () => cutInTwo({ requests: 1 }),
};
const MACHINES = { monitoring: 'a:stateMachine:m', replay: 'a:stateMachine:r' };
/** Finds this execution, or none. */
const stepFunctions = (execution: object | undefined) => {
  const missing = new ExecutionDoesNotExist({ message: mark(), $metadata: {} });
  const send = async (command: object) =>
    command instanceof DescribeExecutionCommand && execution === undefined
      ? Promise.reject(missing)
      : { executions: [{ name: 'other' }], ...execution };
  return { send } as never;
};
const watched = { ...scope, endpoint: 'ep' };
/** A bucket with objects of these keys. */
const captured = (...keys: string[]): Storage => {
  const bucket = new MemoryStorage();
  for (const key of keys) bucket.put(key, mark());
  return bucket.storage;
};
/** A capture file on this machine, in SageMaker's folders. @returns its path */
function savedCapture(endpoint: string): string {
  const hour = join(mkdtempSync(join(tmpdir(), 'silence-')), endpoint, 'AllTraffic', '2026', '11', '20', '10');
  mkdirSync(hour, { recursive: true });
  writeFileSync(join(hour, 'a.jsonl'), `{"captureData":"${mark()}"}`);
  return join(hour, 'a.jsonl');
}
const leaving = (count: number) => ({
  run: 'r',
  status: 'failed' as const,
  summary: { lines: { lost: count, quarantined: count }, verdicts: { failed: 0, heldByBudget: 0 } } as RunSummary,
});

const SHARD_BOUNDS: ShardBounds = { windowMs: 1, requests: 50, bytes: 10_000, perSecond: 5, connections: 4 };
const windowOf = (requests: number) => ({ requests, bytes: 1, peakPerSecond: 1, firstDueMs: 0, lastDueMs: 0 });
const ARN = 'arn:aws:sagemaker:eu-central-1:123456789012:mlflow-tracking-server/mine';

/** Logs a chunk with fewer lines than planned. */
async function logShort(): Promise<unknown> {
  const storage = new MemoryStorage();
  const { bucket, key, etag, size } = storage.put('captures.jsonl', `${markedCapture()}\n`);
  const chunk = chunkOf([{ bucket, key, etag, start: 0, end: size - 1, firstLine: 1, lines: 2, objectTimeMs: 1 }]);
  const options = { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' as const };
  const deps = { storage: storage.storage, store, environment, requestId: 'r', remainingMs: () => 900_000 };
  return logChunk({ run: 'run', attempt: 0, options, chunk }, deps);
}

/** Cuts two requests into two windows of one second. */
function cutInTwo(bounds: Partial<ShardBounds>, concurrency?: Concurrency): unknown {
  const cutter = new WindowCutter({ ...SHARD_BOUNDS, ...bounds }, concurrency);
  for (let second = 0; second < MAX_SHARDS + 2; second += 1) cutter.add(second * 1000, 1);
  return cutter.windows();
}

/** Reads a file until the function's time is over. */
async function scanForEver(): Promise<never> {
  const read = (_object: unknown, _range: unknown, signal: AbortSignal) =>
    new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error(mark()))));
  const object = { ...at, size: 5, lastModifiedMs: 0 };
  for await (const unit of unitsOfObjects({ read } as never, [object], {
    deadlineMs: () => 1,
  })) {
    throw recordedError(unit.failed?.error ?? { name: '', message: '' });
  }
  throw new Error('no unit was returned');
}

/** Writes the trace of an invalid replay line. The error is reported in a result file. */
async function replayedNoCapture(): Promise<never> {
  const client = { ...store, getTraces: async () => new Map(), mendTraces: async () => [] };
  const written = { ...client, writeTraces: async () => ({ written: [], alreadyThere: [], bare: [], refused: [] }) };
  const line = json({ captureData: mark(), eventMetadata: {}, replay: { requestId: 'r', file: 'f', line: 1 } });
  const ports = { client: written, experiment: experiment('s3://x'), runId: 'r' };
  const { refused } = await writeTraces(ports as never, [line], false);
  throw recordedError({ name: refused[0]?.reason.name ?? '', message: json(refused) });
}

/** Plans a replay that already has a stop order. */
async function planStopped(): Promise<unknown> {
  const storage = new MemoryStorage();
  storage.put('ep/AllTraffic/2026/11/20/10/a.jsonl', `${markedCapture()}\n`);
  storage.put(replayKeys.stop('r'), { run: 'r', because: mark() });
  const variables = {
    ...TEST_VARIABLES,
    DATA_CAPTURE_S3_PREFIX: 'ep/',
    AWS_REGION: 'eu-west-1',
    REPLAY_URLS: 'http://x',
  };
  const input = { target: { url: 'http://x' } };
  return planReplay(
    { input, run: { name: 'r', arn: 'arn', startTime: '2026-11-20T09:00:00Z' } },
    {
      storage: Object.assign(takingUploads(storage), { listFolder: storage.list.bind(storage) }),
      environment: readReplayEnvironment(variables),
      evaluation: { settings: environment } as never,
      remainingMs: () => 900_000,
    },
  );
}

function planForBatch(): Promise<unknown> {
  const detail = { bucket: { name: 'b' }, object: { key: at.key } };
  const run = { name: 'a+b', arn: 'arn', startTime: '2026-11-20T09:00:00Z' };
  const request = { input: { detail, judge: 'batch' }, run, part: 0, nextChunk: 0, cursor: null };
  return planCaptures(request, { environment } as never);
}

function planAgain(): Promise<unknown> {
  const storage = new MemoryStorage();
  storage.put(`${workKeys.runPrefix('run')}plan/0.json`, mark());
  const detail = { bucket: { name: 'b' }, object: { key: at.key } };
  const run = { name: 'run', arn: 'arn', startTime: '2026-11-20T09:00:00Z' };
  return planCaptures({ input: { detail }, run, part: 0, nextChunk: 0, cursor: null }, {
    storage: storage.storage,
    environment,
  } as never);
}

/** Runs a judge with credentials from a program that prints secrets. */
function judgeWithoutCredentials(): Promise<unknown> {
  const config = join(mkdtempSync(join(tmpdir(), 'silence-')), 'config');
  writeFileSync(config, `[default]\ncredential_process = sh -c "echo ${mark()} >&2; echo ${MARK}; exit 1"\n`);
  const none = { AWS_ACCESS_KEY_ID: undefined, AWS_SECRET_ACCESS_KEY: undefined };
  return withVariables({ ...none, AWS_CONFIG_FILE: config, AWS_SHARED_CREDENTIALS_FILE: config }, () =>
    connectPairwiseJudge('bedrock:/m', 0),
  );
}

test.each(Object.keys(PROVOKE))('%s', async (name) => {
  if (name === 'MlflowRefusesAll') {
    server.fault(({ path }) =>
      /(?:v1|3\.0\/mlflow)\/traces$/.test(path)
        ? { kind: 'reply', status: 422, body: json({ error_code: 'X', message: mark() }) }
        : undefined,
    );
  }
  const told = await toldOf(() => PROVOKE[name]?.());
  expect([...provoked]).toContain(name);
  expect(told).not.toMatch(TOLD_CAPTURED);
});

test('marked headers, batch answers and replies are not quoted', async () => {
  for (const work of [
    () => parseHeaders(`{"a":"${mark()}`, 'f'),
    () => parseHeaders(mark(), 'f'),
    () => checkHeaders({ a: `${mark()}\n` }),
    () => loadApiKey(secretOf(`${MARK}\n${mark()}`), 'arn'),
    () => readBatchAnswers(`{"recordId":"${mark()}`),
    () => startOf(aws('ValidationException', 400)),
  ]) {
    expect(await toldOf(work)).not.toMatch(TOLD_CAPTURED);
  }
});

/** Errors that no function throws, and their effect instead. */
const STAY_INSIDE: Record<string, string> = {
  BadEventStream: 'the error of a reply in the records of its replay',
  FunctionKilledTooOften: 'the name of a run, and the ordinal of a chunk',
  NotAnEvent: 'the attributes of a dead letter',
  BadResponse: 'the error of a reply in the records of its replay',
  NestedTooDeep: 'a line that is skipped, with its place',
  NotSpliceable: 'a request that is sent as it was captured',
  OutOfTime: 'a note on the trace, or an error assessment: seconds and the name of a scorer',
  TooHeavy: 'a note on the trace',
};

test('every named error is covered', () => {
  // Constructed with the name, with a class that sets it, or passed on to a constructor.
  const made = /(?:(?:new \w*Error|retryable|super)\(\s*|override readonly name = |\{ unreadable: )'([A-Z]\w+)'/g;
  const sources = globSync(['lambda/**/*.ts', 'src/**/*.ts', 'bin/**/*.ts']).map((path) => readFileSync(path, 'utf8'));
  const names = new Set(sources.flatMap((text) => [...text.matchAll(made)].map(([, name = '']) => name)));
  for (const name of [...provoked, ...Object.keys(STAY_INSIDE)]) names.delete(name);
  expect([...names].sort()).toEqual([]);
});
