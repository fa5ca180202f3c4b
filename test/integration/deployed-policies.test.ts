/**
 * Least privilege: the pipeline on an emulated AWS that enforces the policies of each function's role, over TLS. The grants of
 * the stack are sufficient. Without any one of them, the pipeline fails with an error that names the denied access.
 */
import { Agent } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { GetRolePolicyCommand, IAMClient, ListRolePoliciesCommand, PutRolePolicyCommand } from '@aws-sdk/client-iam';
import { CreateSecretCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { type StandInEndpoint, startStandInEndpoint } from '../../local/stand-in-endpoint/server.ts';
import { type LocalEnvironment, startEnvironment } from '../../local/start/environment.ts';
import { resourceNames } from '../../src/contract/names.ts';
import { replayKeys } from '../../src/contract/work-keys.ts';
import { uncheckedIn } from '../aws-requests/product-operations.ts';
import { chatLine, mixedLines } from '../helpers/deployed-captures.ts';
import { DeployedPipeline, type FunctionKey } from '../helpers/deployed-pipeline.ts';
import { type DeployedReader, startDeployedReader } from '../helpers/deployed-reader.ts';
import { DeployedReplay, numberedCapture, received } from '../helpers/deployed-replay.ts';
import { chatLine as captured } from '../helpers/replay.ts';
import { type ReplayRun, ReplaysInMlflow } from '../helpers/replays-in-mlflow.ts';

const PREFIX = 'policies';
const ENDPOINT = 'guarded-endpoint';
const HOUR = `${ENDPOINT}/AllTraffic/2026/11/20/10`;
const names = resourceNames(PREFIX);

interface Statement {
  Action: string | string[];
  Resource: string | string[];
}

interface Needed {
  role: string;
  grant: string;
  is: (statement: Statement) => boolean;
}

/** The grants that the functions need to process one file. */
const NEEDED: Needed[] = [
  {
    role: names.plannerRole,
    grant: 'to read captures',
    is: (one) => has(one.Action, 's3:GetObject') && has(one.Resource, 'sagemaker-captures'),
  },
  {
    role: names.plannerRole,
    grant: 'to write the manifest',
    is: (one) => has(one.Action, 's3:PutObject') && has(one.Resource, '/runs/'),
  },
  {
    role: names.processorRole,
    grant: 'to read captures',
    is: (one) => has(one.Action, 's3:GetObject') && has(one.Resource, 'sagemaker-captures'),
  },
  {
    role: names.processorRole,
    grant: 'to write receipts and quarantine',
    is: (one) => has(one.Action, 's3:PutObject'),
  },
  {
    role: names.evaluatorRole,
    grant: 'to read captures',
    is: (one) => has(one.Action, 's3:GetObject') && has(one.Resource, 'sagemaker-captures'),
  },
  {
    role: names.evaluatorRole,
    grant: 'to write receipts, quarantine and answers',
    is: (one) => has(one.Action, 's3:PutObject'),
  },
  {
    role: names.evaluatorRole,
    grant: 'to reserve money of the budget',
    is: (one) => has(one.Action, 'dynamodb:UpdateItem'),
  },
  {
    role: names.summarizerRole,
    grant: 'to write the summary',
    is: (one) => has(one.Action, 's3:PutObject'),
  },
];

/**
 * The grants that a replay to a URL needs. SageMaker and Bedrock are not emulated, so the permissions to invoke endpoints,
 * to call the judge, and to look up its model are not tested here.
 */
const NEEDED_FOR_REPLAYS: Needed[] = [
  {
    role: names.replayPlannerRole,
    grant: 'to read captures',
    is: (one) => has(one.Action, 's3:GetObject') && has(one.Resource, 'sagemaker-captures'),
  },
  {
    role: names.replayPlannerRole,
    grant: 'to read MLflow’s login',
    is: (one) => has(one.Action, 'secretsmanager:GetSecretValue'),
  },
  {
    role: names.replayPlannerRole,
    grant: 'to read the stop order',
    is: (one) => has(one.Action, 's3:GetObject') && has(one.Resource, 'stop.json'),
  },
  {
    role: names.replayPlannerRole,
    grant: 'to write the schedule',
    is: (one) => has(one.Action, 's3:PutObject') && has(one.Resource, '/schedule/'),
  },
  {
    role: names.replayerRole,
    grant: 'to read captures',
    is: (one) => has(one.Action, 's3:GetObject') && has(one.Resource, 'sagemaker-captures'),
  },
  {
    role: names.replayerRole,
    grant: 'to read the plan and the schedule',
    is: (one) => has(one.Action, 's3:GetObject') && has(one.Resource, '/replays/'),
  },
  {
    role: names.replayerRole,
    grant: 'to claim the shard and to write its measurements',
    is: (one) => has(one.Action, 's3:PutObject'),
  },
  {
    role: names.replayerRole,
    grant: 'to read the headers',
    is: (one) => has(one.Action, 'secretsmanager:GetSecretValue'),
  },
];

/**
 * The grants of the functions that run after the requests are sent. Each function can be called again for a finished replay,
 * which takes seconds instead of another replay.
 */
const NEEDED_AFTERWARDS: (Needed & { which: FunctionKey })[] = [
  {
    which: 'replayEvaluator',
    role: names.replayEvaluatorRole,
    grant: 'to read the measurements of the shards',
    is: (one) => has(one.Action, 's3:GetObject'),
  },
  {
    which: 'replayEvaluator',
    role: names.replayEvaluatorRole,
    grant: 'to write its progress and the verdicts',
    is: (one) => has(one.Action, 's3:PutObject'),
  },
  {
    which: 'replayEvaluator',
    role: names.replayEvaluatorRole,
    grant: 'to read MLflow’s login',
    is: (one) => has(one.Action, 'secretsmanager:GetSecretValue'),
  },
  {
    which: 'replayEvaluator',
    role: names.replayEvaluatorRole,
    grant: 'to reserve money of the budget',
    is: (one) => has(one.Action, 'dynamodb:UpdateItem'),
  },
  {
    which: 'replaySummarizer',
    role: names.replaySummarizerRole,
    grant: 'to read the measurements of the shards and their evaluation',
    is: (one) => has(one.Action, 's3:GetObject'),
  },
  {
    which: 'replaySummarizer',
    role: names.replaySummarizerRole,
    grant: 'to write the results and the list of files to publish',
    is: (one) => has(one.Action, 's3:PutObject'),
  },
  {
    which: 'replayPublisher',
    role: names.replayPublisherRole,
    grant: 'to read the results and the list of files to publish',
    is: (one) => has(one.Action, 's3:GetObject'),
  },
  {
    which: 'replayPublisher',
    role: names.replayPublisherRole,
    grant: 'to list the results',
    is: (one) => has(one.Action, 's3:ListBucket'),
  },
  {
    which: 'replayPublisher',
    role: names.replayPublisherRole,
    grant: 'to read MLflow’s login',
    is: (one) => has(one.Action, 'secretsmanager:GetSecretValue'),
  },
];

/** The grants that complete a stopped replay. */
const NEEDED_TO_STOP: Needed[] = [
  {
    role: names.replayStopperRole,
    grant: 'to read the plan',
    is: (one) => has(one.Action, 's3:GetObject'),
  },
  {
    role: names.replayStopperRole,
    grant: 'to write the stop order',
    is: (one) => has(one.Action, 's3:PutObject'),
  },
  {
    role: names.replayStopperRole,
    grant: 'to list claims and results',
    is: (one) => has(one.Action, 's3:ListBucket'),
  },
  {
    role: names.replayStopperRole,
    grant: 'to call the functions that summarize and publish',
    is: (one) => has(one.Action, 'lambda:InvokeFunction'),
  },
];

const has = (field: string | string[], part: string): boolean => [field].flat().some((one) => one.includes(part));

let environment: LocalEnvironment;
let pipeline: DeployedPipeline;
let reader: DeployedReader;
let iam: IAMClient;
let endpoint: StandInEndpoint;
let replays: DeployedReplay;
/** ARNs of secrets: the headers that a replay sends, and the login to MLflow, which this server does not require. */
let headersArn: string;
let loginArn: string;

beforeAll(async () => {
  endpoint = await startStandInEndpoint({ record: true });
  // Shortens only the waits of the state machine. A shard also waits for its clock in the function.
  environment = await startEnvironment({ enforcePolicies: true, awsEnv: { SFN_WAIT_SCALE: '0.01' } });
  const { ministack } = environment;
  const config = {
    endpoint: ministack.url,
    region: ministack.region,
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    requestHandler: new NodeHttpHandler({ httpsAgent: new Agent({ ca: ministack.ca }) }),
  };
  iam = new IAMClient(config);
  const secrets = new SecretsManagerClient(config);
  headersArn = await makeSecret(secrets, 'replay-headers', { 'x-team': 'search' });
  loginArn = await makeSecret(secrets, 'mlflow', { token: 'a-token' });
  secrets.destroy();
  const outputs = await environment.deployStack({
    STACK_PREFIX: PREFIX,
    SAGEMAKER_ENDPOINT_NAME: ENDPOINT,
    REPLAY_HEADERS_SECRET_ARN: headersArn,
    MLFLOW_SECRET_ARN: loginArn,
  });
  pipeline = new DeployedPipeline(environment, PREFIX, outputs);
  await environment.mlflow;
  reader = await startDeployedReader(ministack.env, environment.mlflowUrl);
  replays = new DeployedReplay(pipeline);
});

afterAll(async () => {
  reader?.stop();
  iam?.destroy();
  await environment?.stop();
  await endpoint?.close();
});

async function makeSecret(client: SecretsManagerClient, Name: string, value: object): Promise<string> {
  const { ARN = '' } = await client.send(new CreateSecretCommand({ Name, SecretString: JSON.stringify(value) }));
  return ARN;
}

test('the whole path works with the policies of the stack', async () => {
  const key = `${HOUR}/mixed.jsonl`;
  const { status, error, cause, summary } = await pipeline.process(key, mixedLines('guarded'));
  expect({ status, error, cause }).toEqual({ status: 'SUCCEEDED' });
  expect(summary?.lines).toMatchObject({ planned: 6, traced: 5, quarantined: 1, lost: 0 });
  const found = await reader.compare(pipeline.outputs.captureBucket, ENDPOINT, [key]);
  expect(found).toMatchObject({ records: 5, traced: 5, missing: [], wrong: {} });
  expect(summary?.verdicts.newVerdicts).toBe(Object.values(found.assessments).flat().length);
});

test.each(NEEDED)('$role needs its grant $grant', async ({ role, is }) => {
  const restore = await takeAway(role, is);
  try {
    const key = `${HOUR}/${NEEDED.findIndex((one) => one.is === is)}.jsonl`;
    const outcome = await pipeline.process(key, [chatLine(key), 'a line for the quarantine']);
    if (role === names.processorRole) {
      // Only a direct invocation, or a run without evaluation, uses the processor.
      const reply = await pipeline.invoke('processor', { bucket: pipeline.outputs.captureBucket, key });
      expect(JSON.stringify(reply)).toMatch(/AccessDenied|not authorized/);
      return;
    }
    expect(outcome.status).toBe('FAILED');
    // If a function cannot write its receipt, only its task reports the error.
    const errors = [outcome.error, outcome.cause, ...(await pipeline.chunkErrors(outcome.arn))];
    expect(errors.join(' ')).toMatch(/AccessDenied|not authorized/);
  } finally {
    await restore();
  }
});

describe('a replay', () => {
  const RUN = 'guarded-replay';
  const captures = [0, 1, 2].map((number) => numberedCapture(number, number));
  const KEY = `${ENDPOINT}/replayed/AllTraffic/2026/11/20/10/a.jsonl`;
  /** A capture with its reply, so that the judge has something to compare. */
  const compared = captured('compared', 2, 'Where is parcel 8841?', 'I do not know.');
  const input = () => ({
    source: { prefix: `${ENDPOINT}/replayed/` },
    target: { url: `${endpoint.url}/invocations`, headersSecretArn: headersArn },
    judge: true,
    mlflow: true,
  });

  beforeAll(async () => {
    await pipeline.process(KEY, [...captures.map(({ line }) => line), compared]);
  });

  test('works with the policies of the stack, with the headers of the secret, the judge and MLflow', async () => {
    const outcome = await replays.ended(await replays.start(input(), RUN));
    expect(DeployedReplay.facts(outcome)).toEqual({ status: 'SUCCEEDED' });
    const { numbers, requests } = received(endpoint, captures);
    expect(numbers).toEqual([0, 1, 2]);
    expect(requests.map(({ headers }) => headers['x-team'])).toEqual(['search', 'search', 'search']);
    const { records, summary, names } = await replays.results(outcome.name);
    expect(records).toHaveLength(4);
    expect(summary.is_complete).toBe(true);
    expect(names).toContain('judged.jsonl');
    expect(outcome.output).toMatchObject({ mlflow: { leftOut: [] } });
  });

  test.each(NEEDED_AFTERWARDS)('$role needs its grant $grant', async ({ role, is, which }) => {
    // A function skips work that is already done.
    await replays.deleteWork(replayKeys.evaluationsPrefix(RUN));
    const run = { name: RUN, arn: 'arn', startTime: '2026-11-21T10:00:00Z' };
    const request = which === 'replayEvaluator' ? { run: RUN, shard: 0 } : { run };
    // A new timeout starts a new process. The old one has cached the login and would not read it again.
    await replays.setTimeout(which, 900);
    const restore = await takeAway(role, is);
    try {
      const { error, payload } = await replays.invoke(which, request);
      expect(error).toBeDefined();
      expect(JSON.stringify(payload)).toMatch(/AccessDenied|not authorized/);
    } finally {
      await restore();
    }
  });

  describe('that was stopped', () => {
    const executionArn = `arn:aws:states:us-east-1:000000000000:execution:replays:${RUN}`;
    const stop = () => replays.invoke('replayStopper', { detail: { executionArn, status: 'ABORTED' } });
    // With a stop order the later functions do less, and after the publication StopReplay does less.
    const forget = async () => {
      for (const key of [replayKeys.stop(RUN), replayKeys.publication(RUN)]) await replays.deleteWork(key);
    };
    beforeEach(forget);
    afterAll(forget);

    test('can be completed with the policies of the stack', async () => {
      const { error, payload } = await stop();
      expect([error, payload]).toEqual([undefined, { end: 'summarized' }]);
      expect(await replays.names(replayKeys.stop(RUN))).toHaveLength(1);
      expect(await replays.names(replayKeys.publication(RUN))).toHaveLength(1);
    });

    test.each(NEEDED_TO_STOP)('$role needs its grant $grant', async ({ role, is }) => {
      const restore = await takeAway(role, is);
      try {
        const { error, payload } = await stop();
        expect(error).toBeDefined();
        expect(JSON.stringify(payload)).toMatch(/AccessDenied|not authorized/);
      } finally {
        await restore();
      }
    });
  });

  describe.each<[string, FunctionKey, Needed]>([
    [
      'summarized',
      'replaySummarizer',
      {
        role: names.replaySummarizerRole,
        grant: 'to write',
        is: (one) => has(one.Action, 's3:PutObject'),
      },
    ],
    [
      'published',
      'replayPublisher',
      {
        role: names.replayPublisherRole,
        grant: 'to read',
        is: (one) => has(one.Action, 's3:GetObject'),
      },
    ],
  ])('that cannot be %s', (what, which, { role, is }) => {
    const run = `never-${what}`;
    const runInMlflow = async () => {
      const found = (await new ReplaysInMlflow(environment.mlflowUrl).runs(`${ENDPOINT}-replays`)).filter(
        ({ name }) => name === run,
      );
      expect(found).toHaveLength(1);
      return found[0] as ReplayRun;
    };

    test('fails with the cause, and its MLflow run ends as failed with the reason', async () => {
      const restore = await takeAway(role, is);
      try {
        const arn = await replays.start({ ...input(), judge: false }, run);
        const { status, error } = await replays.ended(arn);
        expect({ status, error }).toEqual({ status: 'FAILED', error: 'StorageAccessDenied' });
        expect(await runInMlflow()).toMatchObject({
          status: 'FAILED',
          endMs: expect.any(Number),
          tags: {
            replay_error: expect.stringMatching(/^The replay could not be completed\. StorageAccessDenied: /),
          },
        });
      } finally {
        await restore();
      }
    });

    test('can be completed manually once it has the permission', async () => {
      // The process that was denied access can be reused.
      const request = { run: { name: run } };
      if (which === 'replaySummarizer') {
        expect((await replays.invoke('replaySummarizer', request)).payload).toMatchObject({ ok: true, publish: true });
      }
      const publish = async (): Promise<ReplayRun> => {
        expect((await replays.invoke('replayPublisher', request)).payload).toMatchObject({ leftOut: [] });
        return runInMlflow();
      };
      let ended = await publish();
      // StopReplay was denied access too. Its attempt ends the run as failed, maybe only now.
      for (let again = 0; ended.status !== 'FINISHED' && again < 5; again++) {
        await sleep(5_000);
        ended = await publish();
      }
      const { status, tags, metrics, files } = ended;
      expect(status).toBe('FINISHED');
      expect(tags).not.toHaveProperty('replay_error');
      expect(metrics).toMatchObject({ request_count: 4 });
      expect(files).toContain('report.html');
    });
  });

  test.each(NEEDED_FOR_REPLAYS)('$role needs its grant $grant', async ({ role, is }) => {
    // A new timeout starts a new process. The old one has cached MLflow’s login and would not read it again.
    await replays.setTimeout('replayPlanner', 900);
    const restore = await takeAway(role, is);
    try {
      const outcome = await replays.run(input());
      expect(outcome.status).toBe('FAILED');
      const errors = [outcome.error, outcome.cause, ...(await replays.chunkErrors(outcome.arn))];
      expect(errors.join(' ')).toMatch(/AccessDenied|not authorized|could (?:not|no longer) be read/);
    } finally {
      await restore();
    }
  });
});

/** Removes the statements that `is` selects from a policy of the role. @returns a function that restores them */
async function takeAway(RoleName: string, is: (statement: Statement) => boolean): Promise<() => Promise<void>> {
  const { PolicyNames = [] } = await iam.send(new ListRolePoliciesCommand({ RoleName }));
  for (const PolicyName of PolicyNames) {
    const { PolicyDocument = '' } = await iam.send(new GetRolePolicyCommand({ RoleName, PolicyName }));
    const policy = JSON.parse(decodeURIComponent(PolicyDocument)) as { Statement: Statement[] };
    const rest = policy.Statement.filter((statement) => !is(statement));
    if (rest.length === policy.Statement.length) continue;
    const put = async (Statement: Statement[]) => {
      const document = JSON.stringify({ ...policy, Statement });
      await iam.send(new PutRolePolicyCommand({ RoleName, PolicyName, PolicyDocument: document }));
    };
    await put(rest);
    return () => put(policy.Statement);
  }
  throw new Error(`No policy of ${RoleName} has the statement; its policies: ${PolicyNames.join(', ')}`);
}

test('its requests were held against AWS’s models', async () => {
  expect(await uncheckedIn('deployed-policies')).toEqual([]);
});
