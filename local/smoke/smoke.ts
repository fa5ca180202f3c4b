/**
 * `npm run smoke`: sends one capture through a deployed stack, on AWS or in the emulator, given only STACK_PREFIX and the
 * AWS environment. It reports what it found at each step. The exit code is 1 if something is missing.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startProgress } from '../../bin/cli/progress.ts';
import { callAws } from '../../bin/operate/aws-calls.ts';
import { type AwsClients, destroyClients, environmentClients } from '../../bin/operate/aws-clients.ts';
import { readStackOutputs, stackPrefix } from '../../bin/operate/stack-outputs.ts';
import { readRunSummaries } from '../../bin/operate/summary-report.ts';
import { resourceNames } from '../../src/core/contract/names.ts';
import { describeError } from '../../src/core/errors/describe-error.ts';
import { HEAP_MESSAGE } from '../../src/core/process/logging.ts';
import { dotenvSettings, useDotenvRegion } from '../../src/core/settings/dotenv-file.ts';
import { projectPath } from '../project-root.ts';
import { deployedEnvironment, findTrace, putAndFollow, removeCapture, smokeCapture } from './smoke-steps.ts';

const HELP = `Usage: npm run smoke -- [--stack STACK_PREFIX] [--keep]

Puts one capture into the bucket that a deployed stack watches and follows it: the object, the execution that the rule
starts, the run's summary, the trace in MLflow and its verdicts, and whether the functions' limits of memory took effect.
Needs AWS credentials, or the variables that npm start prints. It costs one judge call.

  --stack PREFIX    the stack's STACK_PREFIX (default: from the environment or .env)
  --keep            keep the capture in the bucket (default: remove it; its trace stays)`;

let missing = 0;

function report(ok: boolean, step: string, found: string): void {
  if (!ok) missing += 1;
  console.log(`${ok ? 'ok     ' : 'MISSING'}  ${step.padEnd(10)}  ${found}`);
}

async function smoke(prefix: string, keep: boolean): Promise<void> {
  const clients = environmentClients();
  const progress = startProgress(process.stderr);
  try {
    const outputs = await readStackOutputs(clients, prefix);
    const environment = await deployedEnvironment(clients, outputs);
    report(true, 'stack', `${outputs.stateMachineArn}, writes to ${environment.MLFLOW_TRACKING_URI}`);

    const capture = smokeCapture(environment);
    try {
      const run = await putAndFollow(clients, outputs, capture, progress.show);
      progress.end();
      report(true, 'object', `s3://${outputs.captureBucket}/${capture.key}`);
      const failure = run.status === 'SUCCEEDED' ? '' : ` ${run.error}: ${run.cause}`;
      report(run.status === 'SUCCEEDED', 'execution', `${run.name} ${run.status}${failure}`);

      const summary = (await readRunSummaries(clients, outputs.workBucket, [run])).get(run.name);
      const { lines, verdicts, spend } = summary ?? {};
      report(
        lines?.traced === 1 && verdicts?.lost === 0,
        'summary',
        summary
          ? `${lines?.traced} of ${lines?.planned} lines traced, ${verdicts?.newVerdicts} verdicts, ${verdicts?.failed} failed, ${spend?.usd === null ? 'cost unknown' : `$${spend?.usd.toFixed(4)}`}`
          : 'the run wrote no summary.json',
      );

      for (const warning of summary?.warnings ?? []) console.log(`warning  run         ${warning}`);

      const trace = await findTrace(clients, environment, capture);
      report(trace.state === 'OK', 'trace', `${trace.traceId} in ${trace.experiment}: ${trace.state ?? 'missing'}`);
      const given = trace.assessments.filter((one) => one.valid && one.errorCode === undefined);
      const failed = trace.assessments.filter((one) => one.errorCode !== undefined);
      const expected = (verdicts?.newVerdicts ?? 0) + (verdicts?.failed ?? 0);
      report(
        given.length > 0 && failed.length === 0 && given.length >= expected,
        'verdicts',
        [
          ...given.map((one) => `${one.name}=${one.value}`),
          ...failed.map((one) => `${one.name} failed: ${one.errorCode}`),
        ].join(', ') || 'none',
      );
      const heap = judgeHeap(await readHeapLines(clients, prefix));
      report(heap.ok, 'heap', heap.found);
    } finally {
      progress.end();
      if (!keep) await removeCapture(clients, outputs, capture);
    }
  } finally {
    destroyClients(clients);
  }
}

try {
  useDotenvRegion();
  const { values } = parseArgs({
    options: {
      stack: { type: 'string' },
      keep: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) console.log(HELP);
  else await smoke(stackPrefix(values.stack, dotenvSettings(projectPath('.env'))), values.keep);
} catch (error) {
  missing += 1;
  console.error(describeError(error));
}
console.log(missing === 0 ? '' : '\nThe smoke test failed.');
process.exitCode = missing === 0 ? 0 : 1;

/** The line that a function logs at its cold start, as in `src/core/process/logging.ts`. */
interface HeapLine {
  heapLimitMb: number;
  heapAskedMb?: number;
  commandLine: string[];
  ignored: boolean;
}

/** The functions of every run with evaluation. */
const FUNCTIONS = ['starter', 'planner', 'evaluator', 'summarizer'] as const;

/** A process of Lambda lives for a few hours at most, so its cold start is not older. */
const SINCE_MS = 24 * 3_600_000;
const POLL_MS = 2_000;
/** CloudWatch shows a line a few seconds after it was written. */
const LIMIT_MS = 60_000;

/**
 * Waits until each function of a run has logged its heap.
 *
 * @returns the newest line by function; a function without one is missing
 */
export async function readHeapLines(
  { lambda }: AwsClients,
  prefix: string,
  limitMs = LIMIT_MS,
): Promise<Map<string, HeapLine>> {
  const names = resourceNames(prefix);
  const found = new Map<string, HeapLine>();
  const deadline = Date.now() + limitMs;
  for (;;) {
    for (const name of FUNCTIONS) {
      const line = found.get(name) ?? (await newestLine(lambda, `/aws/lambda/${names[name]}`));
      if (line) found.set(name, line);
    }
    if (found.size === FUNCTIONS.length || Date.now() > deadline) return found;
    await sleep(POLL_MS);
  }
}

async function newestLine(lambda: AwsClients['lambda'], logGroupName: string): Promise<HeapLine | undefined> {
  const startTime = Date.now() - SINCE_MS;
  let last: string | undefined;
  let nextToken: string | undefined;
  // A page may be empty although others follow.
  do {
    const input = { logGroupName, startTime, filterPattern: `"${HEAP_MESSAGE}"`, nextToken };
    const page = await callAws<{ events?: { message: string }[]; nextToken?: string }>(
      lambda,
      'logs',
      'FilterLogEvents',
      input,
    );
    last = page.events?.at(-1)?.message ?? last;
    nextToken = page.nextToken;
  } while (nextToken);
  return last === undefined ? undefined : (JSON.parse(last.slice(last.indexOf('{'))) as HeapLine);
}

/** @returns a sentence, and whether every function was found with the limit that the stack sets */
export function judgeHeap(lines: ReadonlyMap<string, HeapLine>): { ok: boolean; found: string } {
  const texts = FUNCTIONS.map((name) => {
    const line = lines.get(name);
    if (line === undefined) return `${name} logged nothing`;
    const limit = `${name} ${line.heapLimitMb} MB`;
    return line.ignored
      ? `${limit} instead of ${line.heapAskedMb}, by Node's command line: ${line.commandLine.join(' ') || 'no flags'}`
      : limit;
  });
  return { ok: FUNCTIONS.every((name) => lines.get(name)?.ignored === false), found: texts.join(', ') };
}
