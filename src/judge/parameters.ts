/** Reads the judge's inference parameters from the setting `MLFLOW_EVALUATION_MODEL_PARAM`. */
import * as z from 'zod';
import { PermanentError } from '../core/errors/errors.ts';
import { parseJudgeId } from './judge-id.ts';
import { propertiesOf } from './models/model-properties.ts';

const knownSchema = z.object({
  temperature: z.number().min(0).max(2).optional(),
  top_p: z.number().min(0).max(1).optional(),
  max_tokens: z.number().int().positive().optional(),
  guardrail: z
    .string()
    .regex(/^[a-z0-9]+:([1-9]\d*|DRAFT)$/, 'expected a guardrail’s <id>:<version>, the version a number or DRAFT')
    .transform((text) => {
      const [id = '', version = ''] = text.split(':');
      return { id, version };
    })
    .optional(),
  serviceTier: z
    .enum(['flex', 'default'], 'flex or default, for which the list price is the bound of a budget; others cost more')
    .optional(),
});

/** Spellings of other programs. */
const ALIASES: Record<string, string> = {
  topP: 'top_p',
  maxTokens: 'max_tokens',
  max_completion_tokens: 'max_tokens',
  stopSequences: 'stop_sequences',
  stop: 'stop_sequences',
};

/** `guardrail` and `serviceTier`: Bedrock only. */
export interface JudgeParameters
  extends Pick<z.infer<typeof knownSchema>, 'temperature' | 'guardrail' | 'serviceTier'> {
  topP?: number | undefined;
  maxTokens?: number | undefined;
  /** Parameters that are passed to the model unchanged. */
  other: Record<string, unknown>;
  /** Names of the parameters that the user has set: `temperature`, `top_p`, `max_tokens`, and the others. */
  userSet: ReadonlySet<string>;
}

/** Verdicts should not vary between runs. */
const DEFAULT_TEMPERATURE = 0;

const thinks = (other: Record<string, unknown>): boolean => {
  const { thinking } = other as { thinking?: { type?: string } };
  return (
    (thinking !== undefined && thinking?.type !== 'disabled') ||
    'reasoning_effort' in other ||
    'reasoning_config' in other
  );
};

/** Fields by which a person decides how much a model thinks. */
const THINKING = ['thinking', 'output_config', 'reasoning', 'reasoning_effort', 'reasoning_config', 'reasoningConfig'];
export const setsThinking = (other: Record<string, unknown>): boolean => THINKING.some((name) => name in other);

/** Returns the parameters' bounds on an answer, and the tokens that the model may use for thinking in addition. */
export function answerBounds({ maxTokens, other }: JudgeParameters) {
  const { thinking } = other as { thinking?: { budget_tokens?: unknown } };
  const tokens = thinking?.budget_tokens;
  return { maxTokens, thinkingTokens: typeof tokens === 'number' ? tokens : 0 };
}

/** Fields of a request that the stack sets itself, on Bedrock and elsewhere. */
const SET_IN_CHAT = ['messages', 'stream', 'tools', 'tool_choice'];
const SET_BY_CONVERSE = SET_IN_CHAT.concat('anthropic_version', 'model', 'modelId', 'system', 'inferenceConfig');

type Fault = [parameter: string, reason: string];

/** Returns the first of the models that refuses a parameter, by their properties. */
const refusing = (models: readonly string[], parameter: string): string | undefined =>
  models.find((name) => propertiesOf(name)?.refuses.includes(parameter));

/** Returns the parameters that cannot work. */
function faultsOf({ temperature, topP, other, userSet }: JudgeParameters, models: readonly string[]): Fault[] {
  const onBedrock = models.map(parseJudgeId).flatMap(({ scheme, name }) => (scheme === 'bedrock' ? [name] : []));
  const claude = onBedrock.filter((name) => name.includes('claude'));
  const newer = refusing(onBedrock, 'temperature+top_p');
  const own = (onBedrock.length > 0 ? SET_BY_CONVERSE : SET_IN_CHAT).filter((name) => Object.hasOwn(other, name));
  const faults = own.map((name): Fault => [name, `${name}: the request sets it itself`]);
  const { thinking } = other as { thinking?: { type?: unknown } };
  for (const name of [...userSet, `thinking:${thinking?.type}`]) {
    const model = refusing(onBedrock, name);
    if (model !== undefined) faults.push([name.split(':')[0] as string, `${name}: ${model} refuses it`]);
  }
  if ('stop_sequences' in other)
    faults.push(['stop_sequences', 'stop_sequences: the end of its JSON ends an answer, and they would cut it']);
  if (temperature === undefined) return faults;
  if (newer !== undefined && topP !== undefined)
    faults.push(['top_p', `temperature and top_p: ${newer} accepts only one of them`]);
  if (onBedrock.length > 0 && temperature > 1) faults.push(['temperature', 'temperature: Bedrock accepts at most 1']);
  else if (claude.length > 0 && temperature !== 1 && thinks(other))
    faults.push(['temperature', 'temperature: Claude accepts only 1 while it thinks']);
  return faults;
}

type Given = Readonly<Record<string, unknown>>;

const invalid = (wrong: string, got: Given): PermanentError =>
  new PermanentError('InvalidModelParameters', `The judge’s inference parameters are invalid: ${wrong}`, {
    got,
    where: 'MLFLOW_EVALUATION_MODEL_PARAM',
  });

/**
 * Reads the parameters. The default temperature is 0, unless `top_p` is set or the model thinks: models accept either
 * temperature or top_p, and while they think neither.
 *
 * @param models ids of the judges that get the parameters. Without an id, only parameters that every model refuses are
 *   refused
 * @throws PermanentError `InvalidModelParameters`, with the parameters that would work
 */
export function readParameters(given: Given = {}, models: readonly string[] = []): JudgeParameters {
  const named = Object.fromEntries(Object.entries(given).map(([name, value]) => [ALIASES[name] ?? name, value]));
  const parsed = knownSchema.safeParse(named);
  if (!parsed.success) {
    const wrong = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`).join('; ');
    throw invalid(wrong, given);
  }
  const { temperature, top_p: topP, max_tokens: maxTokens, guardrail, serviceTier } = parsed.data;
  const other = Object.fromEntries(Object.entries(named).filter(([name]) => !(name in knownSchema.shape)));
  const chosen = temperature ?? (topP === undefined && !thinks(other) ? DEFAULT_TEMPERATURE : undefined);
  const userSet = new Set(Object.keys(named));
  const made = { temperature: chosen, topP, maxTokens, guardrail, serviceTier, other, userSet };
  const bad = Object.fromEntries(faultsOf(made, models));
  if (Object.keys(bad).length === 0) return made;
  const rest = Object.fromEntries(Object.entries(given).filter(([name]) => !Object.hasOwn(bad, ALIASES[name] ?? name)));
  throw invalid(`${Object.values(bad).join('; ')}. Write ${JSON.stringify(rest)}`, given);
}
