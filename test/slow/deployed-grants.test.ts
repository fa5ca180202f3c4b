/**
 * Least privilege: without any one of the grants of the stack, the pipeline or a replay fails with an error that names the denied
 * access.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { GetRolePolicyCommand, ListRolePoliciesCommand, PutRolePolicyCommand } from '@aws-sdk/client-iam';
import { resourceNames } from '../../src/core/contract/names.ts';
import { replayKeys } from '../../src/core/contract/work-keys.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import type { DeployedPipeline, FunctionKey } from '../helpers/deployed-pipeline.ts';
import type { DeployedReplay } from '../helpers/deployed-replay.ts';
import { ENDPOINT, GuardedStack, HOUR, PREFIX, RUN } from '../helpers/guarded-stack.ts';
import { type ReplayRun, ReplaysInMlflow } from '../helpers/replays-in-mlflow.ts';

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

let stack: GuardedStack;
let pipeline: DeployedPipeline;
let replays: DeployedReplay;

beforeAll(async () => {
  stack = await GuardedStack.deploy();
  ({ pipeline, replays } = stack);
});
afterAll(() => stack?.stop());

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
  beforeAll(() => stack.replayWhole());

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
    beforeEach(() => stack.forgetStop());
    afterAll(() => stack.forgetStop());

    test.each(NEEDED_TO_STOP)('$role needs its grant $grant', async ({ role, is }) => {
      const restore = await takeAway(role, is);
      try {
        const { error, payload } = await stack.stopReplay();
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
      const found = (await new ReplaysInMlflow(stack.environment.mlflowUrl).runs(`${ENDPOINT}-replays`)).filter(
        ({ name }) => name === run,
      );
      expect(found).toHaveLength(1);
      return found[0] as ReplayRun;
    };

    test('fails with the cause, and its MLflow run ends as failed with the reason', async () => {
      const restore = await takeAway(role, is);
      try {
        const arn = await replays.start({ ...stack.input(), judge: false }, run);
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
      for (let again = 0; ended.status !== 'FINISHED' && again < 24; again++) {
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
      const outcome = await replays.run(stack.input());
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
  const { iam } = stack;
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
