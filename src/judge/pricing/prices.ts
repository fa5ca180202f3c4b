/**
 * What a judge call costs, in US dollars. An unknown model has an unknown price (`null`), never 0.
 *
 * The table holds Amazon Bedrock's on-demand rates for text, with its source and date; `npm run prices` compares it with
 * an installed MLflow's catalogue and renews it. Not in the table: the surcharge that some models have for prompts of
 * over 200,000 tokens, which the bound on the judge's prompt keeps out of reach, and the 1-hour prompt cache.
 */

import type { PriceOverrides, Rates } from '../../settings/schema.ts';
import { PermanentError } from '../../shared/errors.ts';
import { overrideOf, withoutScheme } from './price-overrides.ts';
import table from './price-table.json' with { type: 'json' };
import { parseProfileId } from './profile-id.ts';

/** Tokens of one call as Bedrock Converse counts them: `inputTokens` is without the cached ones. */
interface CallUsage {
  inputTokens: number;
  outputTokens: number;
  cacheReadInputTokens?: number | undefined;
  cacheWriteInputTokens?: number | undefined;
}

export interface PriceOptions {
  /** Region that is called, e.g. `eu-west-1`; an ARN's own region wins. */
  region?: string | undefined;
  /** Bedrock batch inference. */
  batch?: boolean | undefined;
  overrides?: PriceOverrides | undefined;
}

/** Bedrock batch inference costs half of on-demand. */
const BATCH_FACTOR = 0.5;
const TOKENS_PER_RATE = 1_000_000;

/** `[input, output, cache read, cache write]` by model, then by `""` (default), profile (`us`) or region (`eu-west-1`). */
type TableRow = (number | null)[];
const MODELS = new Map<string, Record<string, TableRow>>(Object.entries(table.models));

/** Where the table's figures are from, for people. */
export const PRICE_SOURCE = `${table.source} (${table.date})`;

/** Variants of one model by context length share its price: `amazon.nova-pro-v1:0:24k`. */
const CONTEXT_VARIANT = /:\d+k$/;

interface PricedModel {
  /** As in the table, e.g. `anthropic.claude-sonnet-4-6`. */
  model: string;
  /** Geography of the inference profile, e.g. `us`, `global`. */
  profile?: string;
  /** From an ARN. */
  region?: string;
}

/**
 * The model behind a Bedrock model id, inference-profile id or ARN, with or without `bedrock:/`.
 * @returns `undefined` where the name does not tell the model: application profiles, provisioned and imported models.
 */
export function resolveModel(id: string): PricedModel | undefined {
  let name = withoutScheme(id);
  let region: string | undefined;
  const arn = /^arn:aws[a-z-]*:bedrock:([a-z0-9-]*):\d*:(foundation-model|inference-profile)\/(.+)$/.exec(name);
  if (arn !== null) {
    region = arn[1] === '' ? undefined : arn[1];
    name = arn[3] as string;
  } else if (name.startsWith('arn:')) {
    return undefined;
  }
  name = name.replace(CONTEXT_VARIANT, '');
  const profile = parseProfileId(name);
  return { model: profile?.model ?? name, ...(profile === undefined ? {} : { profile: profile.geography }), region };
}

const toRates = ([input, output, cacheRead, cacheWrite]: TableRow): Rates => ({
  input: input as number,
  output: output as number,
  cacheRead: cacheRead ?? undefined,
  cacheWrite: cacheWrite ?? undefined,
});

/** The row with the highest rates: what is assumed where a geography is not listed, so that a cap errs downwards. */
const dearest = (rows: TableRow[]): TableRow | undefined =>
  rows.toSorted((a, b) => Number(b[1]) - Number(a[1]) || Number(b[0]) - Number(a[0]))[0];

function tableRow({ model, profile, region }: PricedModel): TableRow | undefined {
  const rows = MODELS.get(model);
  if (rows === undefined) return undefined;
  const all = Object.values(rows);
  if (profile !== undefined) {
    return rows[profile] ?? (profile === 'global' ? (rows[''] ?? dearest(all)) : dearest(all));
  }
  if (region !== undefined) {
    const own = rows[region];
    if (own !== undefined) return own;
    if (region.startsWith('us-gov-')) return rows['us-gov'] ?? dearest(all);
  }
  return rows[''] ?? dearest(all);
}

/** @returns on-demand rates in US dollars per million tokens, `null` when they are not known. */
export function ratesOf(modelId: string, options: PriceOptions = {}): Rates | null {
  const override = overrideOf(modelId, options.overrides);
  if (override !== undefined && typeof override !== 'string') return override;
  const priced = resolveModel(override ?? modelId);
  if (priced === undefined) return null;
  const region = priced.region ?? options.region;
  const row = tableRow(region === undefined ? priced : { ...priced, region });
  return row === undefined ? null : toRates(row);
}

/** @returns the price of one call in US dollars, `null` when the model's price is not known. */
export function priceCall(modelId: string, usage: CallUsage, options: PriceOptions = {}): number | null {
  const rates = ratesOf(modelId, options);
  if (rates === null) return null;
  const usd =
    usage.inputTokens * rates.input +
    usage.outputTokens * rates.output +
    (usage.cacheReadInputTokens ?? 0) * (rates.cacheRead ?? rates.input) +
    (usage.cacheWriteInputTokens ?? 0) * (rates.cacheWrite ?? rates.input);
  return (usd * (options.batch === true ? BATCH_FACTOR : 1)) / TOKENS_PER_RATE;
}

/**
 * Refuses to start a run whose cost cannot be capped.
 * @param budgetUsd the daily or the run's budget; 0 or `undefined`: there is none, and any model may be used.
 * @throws PermanentError `JudgePriceUnknown`
 */
export function requireKnownPrice(
  modelId: string,
  budgetUsd: number | undefined,
  options: PriceOptions = {},
): Rates | null {
  const rates = ratesOf(modelId, options);
  if (rates === null && budgetUsd !== undefined && budgetUsd > 0) {
    throw new PermanentError('JudgePriceUnknown', 'A budget is set, but the price of the judge model is not known.', {
      got: modelId,
      expected:
        'a Bedrock model in the price table, its price given in JUDGE_PRICES, or EVALUATION_BUDGET_USD=0 (no limit)',
      where: PRICE_SOURCE,
    });
  }
  return rates;
}
