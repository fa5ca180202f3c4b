/**
 * Prices judge calls in US dollars. The price of an unknown model is unknown (`null`), never 0.
 *
 * The table contains Amazon Bedrock's on-demand rates for text, with their source and date. `npm run prices` writes it
 * from MLflow's catalog. The table omits the surcharge of some models for prompts of more than
 * 200,000 tokens, which the judge's prompt never reaches, and the 1-hour prompt cache.
 */

import type { RunOptions } from '../../core/contract/input.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { nearest } from '../../core/errors/nearest.ts';
import type { PriceOverrides, Rates } from '../../core/settings/schema.ts';
import { isStandIn, splitEndpoint } from '../judge-id.ts';
import { type ModelProperties, propertiesOf } from '../models/model-properties.ts';
import table from '../models/price-table.json' with { type: 'json' };
import { resolveModel, withoutScheme } from '../models/profile-id.ts';
import type { CallUsage } from '../types.ts';

export interface PriceOptions {
  /** Region of the call, for example `eu-west-1`. The region in an ARN takes precedence. */
  region?: string | undefined;
  /** Bedrock batch inference. */
  batch?: boolean | undefined;
  overrides?: PriceOverrides | undefined;
}

/** Returns the pricing of the judge's calls with these settings. */
export const priceOptions = (
  settings: { JUDGE_PRICES?: PriceOverrides | undefined },
  judge: RunOptions['judge'] = 'converse',
): PriceOptions => ({
  region: process.env.AWS_REGION,
  overrides: settings.JUDGE_PRICES,
  batch: judge === 'batch',
});

/** Returns the user's price. An inference component without its own price has the price of its endpoint. */
function overrideOf(id: string, overrides: PriceOverrides | undefined): string | Rates | undefined {
  const name = withoutScheme(id);
  const names = id.trim().startsWith('sagemaker:') ? [name, splitEndpoint(name).endpoint] : [name];
  const entries = Object.entries(overrides ?? {});
  return names.flatMap((each) => entries.filter(([key]) => withoutScheme(key) === each))[0]?.[1];
}

/**
 * Returns the id of the model that `JUDGE_PRICES` substitutes for this model, for example for an application inference
 * profile; else the id itself.
 */
function namedModel(id: string, overrides: PriceOverrides | undefined): string {
  const override = overrideOf(id, overrides);
  return typeof override === 'string' ? override : id;
}

/** Returns the properties of the model that these settings ask. */
export const propertiesIn = (id: string, overrides: PriceOverrides | undefined): ModelProperties | undefined =>
  propertiesOf(namedModel(id, overrides));

/** Note to users about a model that the properties file lacks. */
export const UNKNOWN_PROPERTIES =
  'its properties are unknown: its first calls find out what it accepts, and how much it thinks';

/** Bedrock batch inference costs half the on-demand price. */
const BATCH_FACTOR = 0.5;
const TOKENS_PER_RATE = 1_000_000;

/** `[input, output, cache read, cache write]`, by model, then by `""` (default), profile (`us`) or region (`eu-west-1`). */
type TableRow = (number | null)[];
const MODELS = new Map<string, Record<string, TableRow>>(Object.entries(table.models));

/** Source and date of the table, for people. */
export const PRICE_SOURCE = `${table.source} (${table.date})`;

const toRates = ([input, output, cacheRead, cacheWrite]: TableRow): Rates => ({
  input: input as number,
  output: output as number,
  cacheRead: cacheRead ?? undefined,
  cacheWrite: cacheWrite ?? undefined,
});

/** Returns the row with the highest rates. It is used for geographies that are not listed, so that spending stays below a cap. */
const dearest = (rows: TableRow[]): TableRow | undefined =>
  rows.toSorted((a, b) => Number(b[1]) - Number(a[1]) || Number(b[0]) - Number(a[0]))[0];

function tableRow({ model, profile, region }: NonNullable<ReturnType<typeof resolveModel>>): TableRow | undefined {
  const rows = MODELS.get(model);
  if (rows === undefined) return undefined;
  const isGov = profile === undefined && region?.startsWith('us-gov-');
  const isUsual = !isGov && (profile === undefined || profile === 'global');
  const listed = rows[profile ?? region ?? ''] ?? (isGov ? rows['us-gov'] : undefined);
  return listed ?? (isUsual ? rows[''] : undefined) ?? dearest(Object.values(rows));
}

/** Returns on-demand rates in US dollars per million tokens; `null` if they are unknown. */
export function ratesOf(modelId: string, options: PriceOptions = {}): Rates | null {
  const override = overrideOf(modelId, options.overrides);
  if (override !== undefined && typeof override !== 'string') return override;
  const priced = resolveModel(namedModel(modelId, options.overrides));
  if (priced === undefined) return null;
  const region = priced.region ?? options.region;
  const row = tableRow(region === undefined ? priced : { ...priced, region });
  return row === undefined ? null : toRates(row);
}

/**
 * Returns the price of one call in US dollars. Returns `null` if the model's price is unknown.
 *
 * @example
 *     priceCall('us.anthropic.claude-sonnet-4-6', { inputTokens: 1000, outputTokens: 100 })   // 0.00495
 */
export function priceCall(modelId: string, usage: CallUsage, options: PriceOptions = {}): number | null {
  const rates = ratesOf(modelId, options);
  if (rates === null) return null;
  const usd =
    usage.inputTokens * rates.input +
    usage.outputTokens * rates.output +
    (usage.cacheReadInputTokens ?? 0) * (rates.cacheRead ?? rates.input) +
    (usage.cacheWriteInputTokens ?? 0) * (rates.cacheWrite ?? rates.input);
  return (usd * (options.batch ? BATCH_FACTOR : 1)) / TOKENS_PER_RATE;
}

/**
 * Refuses to start a run whose cost cannot be capped. A stand-in costs nothing.
 * @param budgetUsd the daily or the run's budget. With 0 or `undefined` there is no budget, and any model may be used.
 * @param noLimit how a person switches the budget off
 * @throws PermanentError `JudgePriceUnknown`
 */
export function requireKnownPrice(
  modelId: string,
  budgetUsd: number | undefined,
  options: PriceOptions = {},
  noLimit?: string,
): void {
  if (budgetUsd && ratesOf(modelId, options) === null && !isStandIn(modelId)) throw priceUnknown(modelId, noLimit);
}

const MAX_NEAR = 3;

/** Lists settings that fix a model without a price: models with similar names, then its price. */
export function priceRemedy(id: string): string {
  const price = `its price in JUDGE_PRICES, such as {"${id}":{"input":3,"output":15}}`;
  const { model, profile } = (/^(openai|sagemaker):/.test(id) ? undefined : resolveModel(id)) ?? {};
  if (model === undefined) return price;
  const names = [...MODELS.keys()];
  const bare = (name: string): string => name.slice(name.indexOf('.') + 1);
  const meant = nearest(model, names) ?? nearest(model, names.map(bare));
  const longer = names.filter((name) => name.includes(model.toLowerCase()));
  const near = (longer.length > 0 ? longer : names.filter((name) => name === meant || bare(name) === meant))
    .toSorted((a, b) => a.length - b.length)
    .slice(0, MAX_NEAR);
  const listed = near.map((name) => (profile === undefined ? name : `${profile}.${name}`)).join(', ');
  return near.length === 0 ? `a Bedrock model in the price table, or ${price}` : `${listed}; or ${price}`;
}

/** Returns the error for a call that a budget cannot bound. */
export const priceUnknown = (modelId: string, noLimit = 'EVALUATION_BUDGET_USD=0'): PermanentError =>
  new PermanentError('JudgePriceUnknown', 'A budget is set, but the price of the judge’s model is unknown', {
    got: modelId,
    expected: `${priceRemedy(modelId)}; or ${noLimit} (no limit)`,
    where: PRICE_SOURCE,
  });
