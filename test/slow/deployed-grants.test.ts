/** Without a grant the pipeline or a replay fails with an error that names the denied access, and can be completed once it has it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { GetRolePolicyCommand, ListRolePoliciesCommand, PutRolePolicyCommand } from '@aws-sdk/client-iam';
import { resourceNames } from '../../src/core/contract/names.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import type { DeployedPipeline, FunctionKey } from '../helpers/deployed-pipeline.ts';
import type { DeployedReplay } from '../helpers/deployed-replay.ts';
import { ENDPOINT, GuardedStack, HOUR, PREFIX } from '../helpers/guarded-stack.ts';
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

/** One grant of a function that reads, and one of a function that then cannot write its receipt. All others: calls.test.ts. */
const NEEDED: Needed[] = [
  {
    role: names.plannerRole,
    grant: 'to read captures',
    is: (one) => has(one.Action, 's3:GetObject') && has(one.Resource, 'sagemaker-captures'),
  },
  {
    role: names.evaluatorRole,
    grant: 'to write receipts, quarantine and answers',
    is: (one) => has(one.Action, 's3:PutObject'),
  },
];

const has = (field: string | string[], part: string): boolean => [field].flat().some((one) => one.includes(part));

let stack: GuardedStack;
let pipeline: DeployedPipeline;
let replays: DeployedReplay;

beforeAll(async () => {
  stack = await GuardedStack.deploy();
  ({ pipeline, replays } = stack);
  await stack.replayWhole();
});
afterAll(() => stack?.stop());

test.each(NEEDED)('$role needs its grant $grant', async ({ role, is }) => {
  const restore = await takeAway(role, is);
  try {
    const key = `${HOUR}/${NEEDED.findIndex((one) => one.is === is)}.jsonl`;
    const outcome = await pipeline.process(key, [chatLine(key), 'a line for the quarantine']);
    expect(outcome.status).toBe('FAILED');
    // If a function cannot write its receipt, only its task reports the error.
    const errors = [outcome.error, outcome.cause, ...(await pipeline.chunkErrors(outcome.arn))];
    expect(errors.join(' ')).toMatch(/AccessDenied|not authorized/);
  } finally {
    await restore();
  }
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
])('a replay that cannot be %s', (what, which, { role, is }) => {
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
