/** Looks up prices that the user sets for judges that are not in the price table. */
import type { PriceOverrides, Rates } from '../../core/settings/schema.ts';
import { splitEndpoint } from '../judge-id.ts';

/** Returns the model id without `bedrock:/`, `openai:/` or `sagemaker:/`. The settings accept both. */
export const withoutScheme = (id: string): string => id.trim().replace(/^(?:bedrock|openai|sagemaker):?\/+/, '');

/** An inference component without a price of its own has that of its endpoint. */
export function overrideOf(id: string, overrides: PriceOverrides | undefined): string | Rates | undefined {
  const name = withoutScheme(id);
  const names = id.trim().startsWith('sagemaker:') ? [name, splitEndpoint(name).endpoint] : [name];
  const entries = Object.entries(overrides ?? {});
  return names
    .map((each) => entries.find(([key]) => withoutScheme(key) === each)?.[1])
    .find((price) => price !== undefined);
}
