/** The report that `npm start` prints when the executions have ended. */
import { resourceNames } from '../../src/contract/names.ts';
import { tracesUrl } from '../../src/mlflow/trace-url.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import type { Run } from '../../src/operate/process-files.ts';
import { quarantineLines, type ReasonWithLines } from '../../src/operate/quarantine-report.ts';
import { addUp, totalLines, verdictLines } from '../../src/operate/summary-report.ts';
import type { DeployedEndpoint } from './deployed-endpoint.ts';
import type { LocalEnvironment } from './environment.ts';
import { asShown, type StartOptions } from './start-options.ts';

export interface Report {
  environment: LocalEnvironment;
  deployed: readonly DeployedEndpoint[];
  runs: readonly Run[];
  summaries: ReadonlyMap<string, RunSummary>;
  /** The judge's model, if it was the real one. */
  realJudge?: string;
  experiments: readonly { name: string; id: string }[];
  seconds: number;
  quarantine: readonly ReasonWithLines[];
  options: Pick<StartOptions, 'exit' | 'keep'>;
  /** The user's settings that apply. */
  settings: Readonly<Record<string, string>>;
  /** Address of the server that answers for SageMaker's endpoints. */
  endpointUrl: string;
}

/** Returns 1 if a run failed, or if lines were captured and none became a trace; else 0. */
export function exitCode(runs: readonly Run[], summaries: readonly RunSummary[]): number {
  const { captured, traced } = addUp(summaries);
  return runs.some(({ status }) => status !== 'SUCCEEDED') || (captured > 0 && traced === 0) ? 1 : 0;
}

/** Failed runs shown with their error. The others are counted. */
const MAX_FAILURES_SHOWN = 5;
/** Characters of an error's cause, enough for the message without a stack. */
const MAX_CAUSE_CHARS = 600;

/** Returns the lines of the report. */
export function reportLines(report: Report): string[] {
  const totals = addUp([...report.summaries.values()]);
  return [
    '',
    '── Summary ──',
    ...totalLines(totals),
    `seconds: ${report.seconds.toFixed(1)}`,
    '',
    ...costNote(report),
    ...failureLines(report),
    ...quarantineSection(report),
    ...verdictSection(report, verdictLines(totals)),
    ...(report.options.exit ? keptLines(report) : addressLines(report)),
  ];
}

/** With --exit the servers have stopped by the time this is read. */
function keptLines({ options: { keep } }: Report): string[] {
  return keep === undefined ? [] : [`MLflow's database and artifacts: ${keep}`];
}

function addressLines(report: Report): string[] {
  return [
    '── MLflow ──',
    ...report.experiments.map(({ id, name }) => `${tracesUrl(report.environment.mlflowUrl, id)}  (${name})`),
    '',
    '── For AWS tools ──',
    ...exportLines(report),
  ];
}

function quarantineSection({ quarantine, deployed, options }: Report): string[] {
  const files = new Map(deployed.flatMap((one) => one.files.map(({ key, path }) => [key, asShown(path)])));
  const [first] = deployed;
  const rest = options.exit
    ? 'All of them, with their bytes, were in the emulated S3, which --exit has stopped. Omit it to inspect them.'
    : `All of them, with their bytes (base64): aws s3 ls --recursive s3://${first?.outputs.workBucket}/quarantine/`;
  return quarantineLines(quarantine, (key) => files.get(key) ?? key, rest);
}

function costNote({ realJudge }: Report): string[] {
  return realJudge ? [] : ["cost_usd is the price of the stand-in's tokens with the real model; nothing was paid.", ''];
}

function verdictSection({ realJudge }: Report, lines: string[]): string[] {
  if (lines.length === 0) return [];
  const source = realJudge
    ? `by ${realJudge}`
    : "a stand-in's rules, not a model's judgement; --bedrock asks the model";
  return [`── Verdicts (${source}) ──`, ...lines, ''];
}

function failureLines({ runs, summaries, deployed, options }: Report): string[] {
  const failed = runs.filter((run) => run.status !== 'SUCCEEDED');
  if (failed.length === 0) return [];
  const shown = failed
    .slice(0, MAX_FAILURES_SHOWN)
    .flatMap((run) => [
      `${run.keys.join(', ')}: ${run.status} ${run.error ?? ''}`,
      `  ${(run.cause ?? 'no cause given').slice(0, MAX_CAUSE_CHARS)}`,
      ...(summaries.has(run.name) ? [] : ['  It ended before it wrote a summary.json.']),
    ]);
  const more = failed.length - MAX_FAILURES_SHOWN;
  return [
    '── Failed runs ──',
    ...shown,
    ...(more > 0 ? [`and ${more} more`] : []),
    ...(options.exit ? ['--exit deletes the logs of the functions. Omit it to read them.'] : logLines(deployed)),
    '',
  ];
}

function logLines(deployed: readonly DeployedEndpoint[]): string[] {
  return [
    'Read the logs of the functions with the variables below:',
    ...deployed.slice(0, 1).flatMap(({ prefix }) => {
      const { processor, evaluator } = resourceNames(prefix);
      return [processor, evaluator].map((name) => `  aws logs tail /aws/lambda/${name} --since 1h`);
    }),
  ];
}

/** Returns shell commands that set the variables. In some tools a profile has precedence over the dummy keys, so it is unset. */
function exportLines({ environment, deployed, settings, endpointUrl }: Report): string[] {
  const { ministack, mlflowUrl, judge } = environment;
  const [first] = deployed;
  const { AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_DEFAULT_REGION } = ministack.env;
  const variables = {
    AWS_ENDPOINT_URL,
    AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY,
    AWS_REGION,
    AWS_DEFAULT_REGION,
    // The judge and the service with its models: calibrate, doctor and replay --judge use the same ones as the stack.
    AWS_ENDPOINT_URL_BEDROCK_RUNTIME: judge.url,
    AWS_ENDPOINT_URL_BEDROCK: judge.url,
    AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME: endpointUrl,
    ...(settings.JUDGE_BASE_URL ? { JUDGE_BASE_URL: settings.JUDGE_BASE_URL } : {}),
    // The user's .env names secrets on AWS. An empty value counts as not set.
    JUDGE_SECRET_ARN: '',
    MLFLOW_SECRET_ARN: '',
    MLFLOW_TRACKING_URI: mlflowUrl,
    MLFLOW_EXPERIMENT_NAME: first?.endpoint,
    // With these, doctor checks what the local stack depends on.
    SAGEMAKER_ENDPOINT_NAME: first?.endpoint,
    DATA_CAPTURE_S3_BUCKET: first?.outputs.captureBucket,
    STACK_PREFIX: first?.prefix,
    CAPTURE_BUCKET: first?.outputs.captureBucket,
    WORK_BUCKET: first?.outputs.workBucket,
    STATE_MACHINE_ARN: first?.outputs.stateMachineArn,
    REPLAY_ARN: first?.outputs.replayStateMachineArn,
  };
  return [
    'unset AWS_PROFILE AWS_SESSION_TOKEN',
    ...Object.entries(variables).map(([name, value]) => `export ${name}=${value}`),
    ...deployed.slice(1).map(({ endpoint, prefix }) => `# ${endpoint} has a separate stack: STACK_PREFIX=${prefix}`),
  ];
}
