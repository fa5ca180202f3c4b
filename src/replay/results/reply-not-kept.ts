/** The JSON that replaces a reply that was measured but not kept. */
import type { Exchange } from '../http/exchange.ts';

/** Returns the text that replaces a reply that was too large to be kept; `undefined` for other replies. */
export const replacementOf = ({ tooLarge, bodyBytes }: Exchange): string | undefined =>
  tooLarge
    ? JSON.stringify({
        reply_not_kept: { bytes: bodyBytes, why: 'It is larger than the limit for replies; it was measured' },
      })
    : undefined;
