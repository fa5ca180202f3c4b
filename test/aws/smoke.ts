/**
 * `inference-monitor smoke`: sends one capture through a deployed stack, on AWS or in the emulator, given only STACK_PREFIX and the
 * AWS environment. It reports what it found at each step. The exit code is 1 if something is missing.
 */
import { parseArgs } from 'node:util';
import { startProgress } from '../../bin/cli/progress.ts';
import { openStack } from '../../bin/cli/stack.ts';
import { environmentClients } from '../../bin/operate/aws-clients.ts';
import { describeError } from '../../local/machine/describe-error.ts';
import { useDotenvRegion } from '../../src/core/settings/dotenv-file.ts';
import {
  deployedEnvironment,
  findTrace,
  putAndFollow,
  readRunSummary,
  removeCapture,
  smokeCapture,
} from './smoke-steps.ts';

let missing = 0;

function report(ok: boolean, step: string, found: string): void {
  if (!ok) missing += 1;
  console.log(`${ok ? 'ok     ' : 'MISSING'}  ${step.padEnd(10)}  ${found}`);
}

async function smoke(stack: string | undefined, keep: boolean): Promise<void> {
  const clients = environmentClients();
  const progress = startProgress(process.stderr);
  const { outputs } = await openStack({ stack }, clients);
  const environment = await deployedEnvironment(clients, outputs);
  report(true, 'stack', `${outputs.stateMachineArn}, writes to ${environment.MLFLOW_TRACKING_URI}`);

  const capture = smokeCapture(environment);
  try {
    const file = { key: capture.key, text: `${capture.line}\n` };
    const { run } = await putAndFollow(clients, outputs, file, { onProgress: progress.show });
    progress.end();
    report(true, 'object', `s3://${outputs.captureBucket}/${capture.key}`);
    const failure = run.status === 'SUCCEEDED' ? '' : ` ${run.error}: ${run.cause}`;
    report(run.status === 'SUCCEEDED', 'execution', `${run.name} ${run.status}${failure}`);

    const summary = await readRunSummary(clients, outputs.workBucket, run.name);
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
  } finally {
    progress.end();
    if (!keep) await removeCapture(clients, outputs, capture);
  }
}

try {
  useDotenvRegion();
  const { values } = parseArgs({
    options: { stack: { type: 'string' }, keep: { type: 'boolean', default: false } },
  });
  await smoke(values.stack, values.keep);
} catch (error) {
  missing += 1;
  console.error(describeError(error));
}
console.log(missing === 0 ? '' : '\nThe smoke test failed.');
process.exitCode = missing === 0 ? 0 : 1;
