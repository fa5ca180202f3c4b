/** Reads the judge's inference parameters from the setting `MLFLOW_EVALUATION_MODEL_PARAM`. */
import * as z from 'zod';
import { PermanentError } from '../../shared/errors.ts';

const knownSchema = z.object({
  temperature: z.number().min(0).max(2).optional(),
  top_p: z.number().min(0).max(1).optional(),
  max_tokens: z.number().int().positive().optional(),
  stop: z.union([z.string().transform((one) => [one]), z.array(z.string())]).optional(),
});

/** Spellings of other programs. */
const ALIASES: Record<string, string> = {
  topP: 'top_p',
  maxTokens: 'max_tokens',
  max_completion_tokens: 'max_tokens',
  stopSequences: 'stop',
  stop_sequences: 'stop',
};

export interface JudgeParameters {
  temperature?: number | undefined;
  topP?: number | undefined;
  maxTokens?: number | undefined;
  stop?: string[] | undefined;
  /** Parameters that are passed to the model unchanged. */
  other: Record<string, unknown>;
  /** Names of the parameters that the user has set: `temperature`, `top_p`, `max_tokens`, `stop`, and the others. */
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

/** Returns the parameters' bounds on an answer, and the tokens that the model may use for thinking in addition. */
export function answerBounds({ maxTokens, other }: JudgeParameters) {
  const { thinking } = other as { thinking?: { budget_tokens?: unknown } };
  const tokens = thinking?.budget_tokens;
  return { maxTokens, thinkingTokens: typeof tokens === 'number' ? tokens : 0 };
}

/**
 * Reads the parameters. The default temperature is 0, unless `top_p` is set or the model thinks: models accept either
 * temperature or top_p, and neither while they think.
 * @throws PermanentError `InvalidModelParameters`
 */
export function readParameters(given: Readonly<Record<string, unknown>> = {}): JudgeParameters {
  const named = Object.fromEntries(Object.entries(given).map(([name, value]) => [ALIASES[name] ?? name, value]));
  const parsed = knownSchema.safeParse(named);
  if (!parsed.success) {
    const wrong = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`).join('; ');
    throw new PermanentError('InvalidModelParameters', `The judge’s inference parameters are invalid: ${wrong}`, {
      got: given,
      where: 'MLFLOW_EVALUATION_MODEL_PARAM',
    });
  }
  const { temperature, top_p: topP, max_tokens: maxTokens, stop } = parsed.data;
  const other = Object.fromEntries(Object.entries(named).filter(([name]) => !(name in knownSchema.shape)));
  const chosen = temperature ?? (topP === undefined && !thinks(other) ? DEFAULT_TEMPERATURE : undefined);
  return { temperature: chosen, topP, maxTokens, stop, other, userSet: new Set(Object.keys(named)) };
}
