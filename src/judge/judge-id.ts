/**
 * Ids of judges, as `BEDROCK_MODEL_ID` states them: `bedrock:/<model>` (or only the model), `openai:/…`, `sagemaker:/<endpoint>`
 * or `sagemaker:/<endpoint>/<inference component>`.
 */
import { PermanentError } from '../core/errors/errors.ts';
import type { LambdaEnvironment } from '../core/settings/environment.ts';
import type { ModelProperties } from './models/model-properties.ts';

type JudgeScheme = 'bedrock' | 'openai' | 'sagemaker';

/**
 * Splits a judge's id into the scheme and the name. A Bedrock ARN contains colons and slashes but has no scheme.
 * @throws PermanentError `InvalidJudge`
 *
 * @example
 *     parseJudgeId('openai:/gpt-5-mini')   // { scheme: 'openai', name: 'gpt-5-mini' }
 */
export function parseJudgeId(model: string): { scheme: JudgeScheme; name: string } {
  const match = /^([a-z][a-z0-9_-]*):\/+([^/].*)$/s.exec(model.trim());
  if (match === null) return { scheme: 'bedrock', name: model.trim() };
  const [, scheme, name = ''] = match;
  if (scheme === 'bedrock' || scheme === 'openai' || scheme === 'sagemaker') return { scheme, name };
  throw new PermanentError('InvalidJudge', 'The kind of judge is unknown', {
    got: model,
    expected:
      'bedrock:/<model>, openai:/<model> with JUDGE_BASE_URL, sagemaker:/<endpoint> or sagemaker:/<endpoint>/<inference component>',
    where: 'BEDROCK_MODEL_ID',
  });
}

/** The path of the stand-in's address in the local environment. A stand-in that forwards to the model has no path. */
export const STAND_IN_PATH = '/stand-in';

/** The variables with the address of a kind of judge. */
const ADDRESSES: Record<JudgeScheme, string> = {
  bedrock: 'AWS_ENDPOINT_URL_BEDROCK_RUNTIME',
  openai: 'JUDGE_BASE_URL',
  sagemaker: 'AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME',
};

/** Whether the local environment's stand-in answers for this judge, by rules and free of charge. */
export function isStandIn(model: string): boolean {
  const [, scheme = 'bedrock'] = /^(openai|sagemaker):/.exec(model.trim()) ?? [];
  return `${process.env[ADDRESSES[scheme as JudgeScheme]]}/`.includes(`${STAND_IN_PATH}/`);
}

/** Returns the judge's name for verdicts and people. A stand-in never gets the model's name. */
export function judgeName(model: string): string {
  if (!isStandIn(model)) return model;
  const { scheme, name } = parseJudgeId(model);
  return `stand-in for ${scheme}:/${name}`;
}

/** Splits the name of a judge on SageMaker into its endpoint and, if there is one, the inference component. */
export function splitEndpoint(name: string): { endpoint: string; component?: string } {
  const [endpoint = '', component] = name.split('/');
  return component ? { endpoint, component } : { endpoint };
}

type JudgeModels = Pick<LambdaEnvironment, 'BEDROCK_MODEL_ID' | 'JUDGE_CASCADE'>;

/** The models that the settings name: the judge, and the first model of a cascade. */
export const judgeModels = ({ BEDROCK_MODEL_ID, JUDGE_CASCADE }: JudgeModels): string[] =>
  JUDGE_CASCADE === undefined ? [BEDROCK_MODEL_ID] : [BEDROCK_MODEL_ID, JUDGE_CASCADE];

/** The endpoints that the judges are, in lower case as AWS compares them. */
export const judgeEndpoints = (models: JudgeModels): string[] =>
  judgeModels(models)
    .filter((id) => id.startsWith('sagemaker:'))
    .map((id) => splitEndpoint(parseJudgeId(id).name).endpoint.toLowerCase());

/** The model that is asked about every capture, in batch inference too. */
export const firstModel = ({ BEDROCK_MODEL_ID, JUDGE_CASCADE = BEDROCK_MODEL_ID }: JudgeModels): string =>
  JUDGE_CASCADE;

/**
 * @throws PermanentError `InvalidJudge` when the judge is not on Bedrock, or not known to be listed for batch inference
 */
export function assertBatchPossible(model: string, properties: Pick<ModelProperties, 'batch'> | undefined): void {
  if (parseJudgeId(model).scheme === 'bedrock' && properties?.batch) return;
  throw new PermanentError('InvalidJudge', 'The judge is not known to be listed by Bedrock for batch inference', {
    got: model,
    expected:
      'a listed model, such as us.anthropic.claude-sonnet-4-6, as JUDGE_CASCADE, or without one as BEDROCK_MODEL_ID; or "judge": "converse"',
  });
}
