/** Prices that the user states, for judges whose price the table cannot know. */
import * as z from 'zod';

/** US dollars per million tokens. A cache rate that is absent is the input rate. */
export interface Rates {
  input: number;
  output: number;
  cacheRead?: number | undefined;
  cacheWrite?: number | undefined;
}

const ratesSchema: z.ZodType<Rates> = z.strictObject({
  input: z.number().min(0),
  output: z.number().min(0),
  cacheRead: z.number().min(0).optional(),
  cacheWrite: z.number().min(0).optional(),
});

/**
 * `JUDGE_PRICES`: by the judge's model id or ARN as configured, rates in US dollars per million tokens, or the id of the
 * model whose price applies (for an application inference profile, a provisioned or an imported model, a judge outside
 * Bedrock):
 *
 *     {"arn:aws:bedrock:…:application-inference-profile/a1b2": "us.anthropic.claude-sonnet-4-6",
 *      "sagemaker:/my-judge": {"input": 0.4, "output": 0.4}}
 */
export const priceOverridesSchema = z.record(z.string(), z.union([z.string().min(1), ratesSchema]));
export type PriceOverrides = z.infer<typeof priceOverridesSchema>;

/** A model id without `bedrock:/`, `openai:/` or `sagemaker:/`: judges are asked for by either. */
export const withoutScheme = (id: string): string => id.trim().replace(/^(?:bedrock|openai|sagemaker):?\/+/, '');

export function overrideOf(id: string, overrides: PriceOverrides | undefined): string | Rates | undefined {
  const name = withoutScheme(id);
  return Object.entries(overrides ?? {}).find(([key]) => withoutScheme(key) === name)?.[1];
}
