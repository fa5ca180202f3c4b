/** The file with the variables that make all commands work on the local environment, for a shell to `source`. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { DeployedStack } from '../../bin/cli/stack.ts';
import { isRunning } from '../../src/core/process/is-running.ts';
import { keptPath } from '../../src/core/process/package-folder.ts';
import { shellWord } from '../../src/core/text/shell-word.ts';
import type { LocalEnvironment } from './environment.ts';

interface LocalFacts {
  environment: Pick<LocalEnvironment, 'ministack' | 'mlflowUrl' | 'judge'>;
  deployed: readonly DeployedStack[];
  /** The user's settings that apply. */
  settings: Readonly<Record<string, string>>;
  /** Address of the server that answers for SageMaker's endpoints. */
  endpointUrl: string;
}

export type EnvFile = ReturnType<typeof writeEnvFile>;

const ENV_FILE = keptPath('.local', 'env');
const OWNER = '# npm start, process ';

/** Returns the file's name, or a separate name if another local environment is running with it. */
function freeFile(file: string): string {
  const owner = existsSync(file) ? ownerOf(file) : undefined;
  return owner === undefined || owner === process.pid || !isRunning(owner) ? file : `${file}-${process.pid}`;
}

const ownerOf = (file: string): number => Number(readFileSync(file, 'utf8').split('\n')[0]?.slice(OWNER.length));

/**
 * Writes the file, readable by its owner alone.
 *
 * @param file default: `.local/env`
 */
export function writeEnvFile(facts: LocalFacts, file = ENV_FILE) {
  const path = freeFile(file);
  mkdirSync(dirname(path), { recursive: true });
  // A file that exists would keep its mode.
  rmSync(path, { force: true });
  writeFileSync(path, `${[OWNER + process.pid, ...exportLines(facts)].join('\n')}\n`, { mode: 0o600 });
  return {
    path,
    /** Removes it when the environment stops. */
    remove: () => {
      if (existsSync(path) && ownerOf(path) === process.pid) rmSync(path, { force: true });
    },
  };
}

/** Variables of the user's shell that would take precedence, or that the SDK refuses in combination with an address. */
const UNSET = [
  'AWS_PROFILE AWS_SESSION_TOKEN AWS_USE_FIPS_ENDPOINT AWS_USE_DUALSTACK_ENDPOINT',
  // The addresses of single services.
  "$(env | sed -n 's/^\\(AWS_ENDPOINT_URL_[A-Z0-9_]*\\)=.*/\\1/p')",
];

/** Returns shell commands that set the variables. */
function exportLines({ environment, deployed, settings, endpointUrl }: LocalFacts): string[] {
  const { ministack, mlflowUrl, judge } = environment;
  const { AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_DEFAULT_REGION } = ministack.env;
  const [{ prefix = '', outputs } = {} as Partial<DeployedStack>] = deployed;
  const variables = {
    AWS_ENDPOINT_URL,
    // The mark of these settings, by which a deployment to somewhere else is refused.
    INFERENCE_MONITOR_LOCAL: AWS_ENDPOINT_URL,
    AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY,
    AWS_REGION,
    AWS_DEFAULT_REGION,
    // The judge and the service with its models: calibrate, doctor and replay --judge use the same as the stack.
    AWS_ENDPOINT_URL_BEDROCK_RUNTIME: judge.url,
    AWS_ENDPOINT_URL_BEDROCK: judge.url,
    AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME: endpointUrl,
    // The user's .env names a judge and secrets on AWS. An empty value counts as not set.
    JUDGE_BASE_URL: '',
    ...settings,
    JUDGE_SECRET_ARN: '',
    MLFLOW_TRACKING_URI: mlflowUrl,
    STACK_PREFIX: prefix,
    CAPTURE_BUCKET: outputs?.captureBucket,
    WORK_BUCKET: outputs?.workBucket,
    STATE_MACHINE_ARN: outputs?.stateMachineArn,
    REPLAY_ARN: outputs?.replayStateMachineArn,
    GROUND_TRUTH_ARN: outputs?.groundTruthStateMachineArn,
  };
  return [
    `unset ${UNSET.join(' ')}`,
    ...Object.entries(variables).map(([name, value = '']) => `export ${name}=${shellWord(value)}`),
    ...deployed
      .slice(1)
      .map(({ prefix, outputs: { endpoint } }) => `# ${endpoint} has a separate stack: --stack ${prefix}`),
  ];
}
