/** The JSON that replaces a reply that was measured but not kept. */
import type { Exchange } from '../http/exchange.ts';

/** @param bytes size of the reply */
export const replyNotKept = (bytes: number, why: string): string =>
  JSON.stringify({ reply_not_kept: { bytes, why: `${why}; it was measured` } });

/** Returns the text that replaces a reply that was too large to be kept; `undefined` for other replies. */
export const replacementOf = ({ tooLarge, bodyBytes }: Exchange): string | undefined =>
  tooLarge ? replyNotKept(bodyBytes, 'It is larger than the limit for replies') : undefined;
