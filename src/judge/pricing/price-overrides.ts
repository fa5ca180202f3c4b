/** Looks up prices that the user sets for judges that are not in the price table. */
import type { PriceOverrides, Rates } from '../../settings/schema.ts';

/** Returns the model id without `bedrock:/`, `openai:/` or `sagemaker:/`. The settings accept both. */
export const withoutScheme = (id: string): string => id.trim().replace(/^(?:bedrock|openai|sagemaker):?\/+/, '');

export function overrideOf(id: string, overrides: PriceOverrides | undefined): string | Rates | undefined {
  const name = withoutScheme(id);
  return Object.entries(overrides ?? {}).find(([key]) => withoutScheme(key) === name)?.[1];
}
