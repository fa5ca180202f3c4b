/**
 * Properties of models that are known before the first call, by generation: `model-properties.json`, with sources and
 * dates.
 */
import { hash } from 'node:crypto';
import file from './model-properties.json' with { type: 'json' };
import { resolveModel } from './profile-id.ts';

/** The fields of an entry that the product reads. */
export interface ModelProperties {
  /** Parameters and forms of answer that the model refuses. `a+b`: both together. */
  refuses: readonly string[];
  /** Bedrock lists the model for batch inference. */
  batch: boolean;
  /** Request fields for the least thinking. */
  leastThinking?: Record<string, unknown>;
  /** Minimum length of a cached prefix, in tokens. Absent: the model caches nothing. */
  cacheMinimum?: number;
  /** Tokens of the quota for a token of an answer. */
  outputBurndown: number;
  /** Tokens of a text, as a multiple of the estimate of `estimateTokens`. */
  tokens: number;
}

/** Changes with the file. */
export const PROPERTIES_VERSION = hash('sha256', JSON.stringify(file)).slice(0, 16);

const BY_MODEL = new Map(
  file.generations.flatMap(({ models, ...properties }) =>
    models.map((id): [string, ModelProperties] => [id, properties]),
  ),
);

/** @param modelId an id or ARN, with or without `bedrock:/` @returns `undefined` if the model is unknown */
export const propertiesOf = (modelId: string): ModelProperties | undefined =>
  BY_MODEL.get(resolveModel(modelId)?.model ?? '');

/** Returns how many tokens of the provider's quota per minute one token of the answer uses. Returns 1 for an unknown model. */
export const outputBurndown = (modelId: string): number => propertiesOf(modelId)?.outputBurndown ?? 1;
