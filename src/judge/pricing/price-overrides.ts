/** Prices from the settings, for judges whose price the table cannot know. */
import type { PriceOverrides, Rates } from '../../settings/schema.ts';

/** A model id without `bedrock:/`, `openai:/` or `sagemaker:/`: judges are asked for by either. */
export const withoutScheme = (id: string): string => id.trim().replace(/^(?:bedrock|openai|sagemaker):?\/+/, '');

export function overrideOf(id: string, overrides: PriceOverrides | undefined): string | Rates | undefined {
  const name = withoutScheme(id);
  return Object.entries(overrides ?? {}).find(([key]) => withoutScheme(key) === name)?.[1];
}
