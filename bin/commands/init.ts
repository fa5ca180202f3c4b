/** `inference-monitor init`: writes a new `.env`, by asking or by flags. */
import { readFileSync } from 'node:fs';
import { InvalidArgumentError } from 'commander';
import { doubtsAbout } from '../../lib/settings/checks.ts';
import { parseSettings, SETTING_NAMES } from '../../lib/settings/settings.ts';
import { checkNames } from '../../src/core/errors/nearest.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { dotenvText } from '../../src/core/settings/dotenv-file.ts';
import { assertNew, withNewFile } from '../cli/new-file.ts';
import { command, option, options } from '../cli/options.ts';
import { EXIT, notice } from '../cli/output.ts';
import { askJudge } from '../doctor/ask-judge.ts';
import { quickClients } from '../doctor/finding.ts';
import { assertValid, collect, foundAccount } from '../init/collect.ts';
import { promptOnTerminal } from '../init/prompt.ts';

function assignment(text: string, before: Record<string, string> = {}): Record<string, string> {
  const [, name = '', value = ''] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
  if (name === '') throw new InvalidArgumentError('Expected NAME=value.');
  return { ...before, [name]: value };
}

const OPTIONS = options(
  option('--endpoint <name>', 'the SageMaker endpoint'),
  option('--stack <prefix>', "the stack's STACK_PREFIX"),
  option('--bucket <name>', 'the bucket of its captures (default: from its Data Capture)'),
  option('--mlflow <arn|url>', 'an mlflow-app, or the URL of an MLflow server'),
  option('--set <name=value>', 'another setting of .env.example; repeat it for more', {
    parse: assignment,
    initial: {},
  }),
  option('--region <region>', 'region of the stack, written as AWS_REGION (default: AWS_REGION)'),
  option('-o, --out <file>', 'the file to write (default: .env)'),
  option('--yes', 'ask nothing: flags and what the account says are enough'),
);

export default command('init', OPTIONS, async ({ set, region, out, yes, ...flags }) => {
  const file = out ?? (process.env.DOTENV_CONFIG_PATH || '.env');
  assertNew(file, 'to edit it (inference-monitor doctor checks it), or another file with --out');
  checkNames('setting', Object.keys(set), SETTING_NAMES);
  const given = {
    ...set,
    ...(flags.stack !== undefined && { STACK_PREFIX: flags.stack }),
    ...(flags.endpoint !== undefined && { SAGEMAKER_ENDPOINT_NAME: flags.endpoint }),
    ...(flags.bucket !== undefined && { DATA_CAPTURE_S3_BUCKET: flags.bucket }),
    ...(flags.mlflow !== undefined && { MLFLOW_TRACKING_URI: flags.mlflow }),
  };
  assertValid(given);
  const clients = quickClients(region);
  const place = await clients.lambda.config.region().catch(() => undefined);
  const prompt = yes ? undefined : promptOnTerminal();
  try {
    const say = prompt === undefined ? notice : prompt.say;
    const values = await collect(given, foundAccount(clients, say), place, prompt);
    const written = { ...values, ...(place && { AWS_REGION: place }) };
    const text = dotenvText(readFileSync(packagePath('.env.example'), 'utf8'), written);
    await withNewFile(file, (write) => write(Buffer.from(text.trimEnd())));
    const settings = parseSettings({ ...values, CDK_DEFAULT_REGION: place });
    for (const doubt of doubtsAbout(settings)) notice(`${doubt}.`);
    notice(`Wrote ${file}. Next: inference-monitor doctor`);
    const question = 'Ask the judge one question now, for some cents? y, or Enter for no';
    const answer = await prompt?.ask({ text: question, optional: true, fault: () => undefined }).catch(() => '');
    if (answer?.toLowerCase() !== 'y' || place === undefined) return;
    const found = await askJudge({ lambda: clients.lambda, region: place, settings }, settings.BEDROCK_MODEL_ID);
    for (const { level, message } of found) notice(`${level}: ${message}`);
  } catch (error) {
    if ((error as Error).name !== 'AbortError') throw error;
    notice('Stopped. Nothing was written.');
    process.exitCode = EXIT.interrupted;
  } finally {
    prompt?.close();
  }
});
