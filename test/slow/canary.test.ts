/**
 * `npm run canary` against the emulated AWS, as a person runs it: it is left in the middle, resumed, and leaves nothing. The
 * assertions that an emulator cannot show are skipped, each with its reason.
 */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { DescribeStacksCommand, ListStacksCommand } from '@aws-sdk/client-cloudformation';
import { ListFunctionsCommand } from '@aws-sdk/client-lambda';
import { ListBucketsCommand } from '@aws-sdk/client-s3';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { ASSERTION_IDS, assertionOf } from '../aws/assertions.ts';
import { reportPath, statePath } from '../aws/state.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { type LocalEnvironment, startEnvironment } from '../helpers/local-environment.ts';

const PREFIX = 'canary-test';
/** Assertions that the emulator cannot show. */
const SKIPPED = ASSERTION_IDS.filter((id) => assertionOf(id).emulator);

let environment: LocalEnvironment;
let endpoint: StandInEndpoint;

beforeAll(async () => {
  rmSync(statePath(PREFIX), { force: true });
  endpoint = await startStandInEndpoint();
  // The wait for a batch job is a minute between two polls.
  environment = await startEnvironment({ awsEnv: { SFN_WAIT_SCALE: '0.01' } });
  await environment.mlflow;
  const { cloudFormation } = environment.clients;
  const isReady = async () => {
    const reply = await cloudFormation
      .send(new DescribeStacksCommand({ StackName: 'CDKToolkit' }))
      .catch(() => undefined);
    return reply?.Stacks?.[0]?.StackStatus === 'CREATE_COMPLETE';
  };
  while (!(await isReady())) await new Promise((resolve) => setTimeout(resolve, 100));
});

afterAll(async () => {
  rmSync(reportPath(PREFIX), { force: true });
  await environment?.stop();
  await endpoint?.close();
});

/** Runs the command. @param leaveAt text after which it gets a Ctrl-C */
async function canary(args: string[], leaveAt?: string): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, [packagePath('test', 'aws', 'main.ts'), '--prefix', PREFIX, ...args], {
    cwd: packagePath(),
    env: { ...process.env, ...environment.ministack.env, MLFLOW_TRACKING_URI: environment.mlflowUrl },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let isLeft = false;
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (piece: Buffer) => {
      output += piece.toString();
      // A second Ctrl-C would end it at once.
      if (!isLeft && leaveAt && output.includes(leaveAt)) isLeft = child.kill('SIGINT');
    });
  }
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, output };
}

async function stacks(): Promise<(string | undefined)[]> {
  const { StackSummaries = [] } = await environment.clients.cloudFormation.send(new ListStacksCommand({}));
  return StackSummaries.filter(({ StackStatus }) => StackStatus !== 'DELETE_COMPLETE').map(
    ({ StackName }) => StackName,
  );
}

describe('npm run canary', () => {
  test('says what it will cost, and makes nothing without --yes', async () => {
    const { code, output } = await canary([]);
    expect(output).toMatch(/judge +\$0\.\d\d for 20 captures/);
    expect(output).toMatch(/together +about \$0\.\d\d; the judge's budget is 0\.95 dollars/);
    expect(output).toContain('Nothing has been made');
    expect(code).toBe(0);
    expect(await stacks()).toEqual(['CDKToolkit']);
    expect(existsSync(statePath(PREFIX))).toBe(false);
  });

  test('can be interrupted and resumed, sees all that the emulator can show, and leaves nothing', async () => {
    const url = `${endpoint.url}/v1/chat/completions`;
    // AWS lists no batch inference for the default judge.
    const batch = ['--batch', '--model', 'us.anthropic.claude-sonnet-4-6'];
    const left = await canary(['--url', url, ...batch, '--yes'], assertionOf('stack-deploys').text);
    expect(left.output).toMatch(/Continue: npm run canary -- --resume --prefix canary-test\nDelete them: .* --clean/);
    expect(left.code).toBe(130);
    const { code, output } = await canary(['--resume']);
    expect(output.match(/^failed .*/gm) ?? []).toEqual([]);
    expect(code).toBe(0);
    // Deployed once: the step was done.
    expect(output.match(/outputs after/g)).toHaveLength(1);

    const report = readFileSync(reportPath(PREFIX), 'utf8');
    const outcomes = ASSERTION_IDS.map((id) => [
      id,
      report
        .split('\n')
        .find((line) => line.includes(` ${assertionOf(id).text} `))
        ?.split('|')[1]
        ?.trim(),
    ]);
    const expected = ASSERTION_IDS.map((id) => [id, SKIPPED.includes(id) ? 'skipped' : 'seen']);
    expect(Object.fromEntries(outcomes)).toEqual(Object.fromEntries(expected));
    for (const id of SKIPPED)
      expect(report).toMatch(new RegExp(`skipped \\| ${assertionOf(id).text.slice(0, 20)}.* \\| .{10,} \\| `));
    expect(report).not.toMatch(/arn:|\d{12}|sagemakerinference|inferencemonitorcanary|127\.0\.0\.1|canary-test/i);

    expect(await stacks()).toEqual(['CDKToolkit']);
    const { Buckets = [] } = await environment.clients.s3.send(new ListBucketsCommand({}));
    expect(Buckets.map(({ Name }) => Name).filter((name) => !name?.startsWith('cdk-'))).toEqual([]);
    const { Functions = [] } = await environment.clients.lambda.send(new ListFunctionsCommand({}));
    expect(Functions).toEqual([]);
    expect(existsSync(statePath(PREFIX))).toBe(false);
  });
});
