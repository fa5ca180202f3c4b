/** The settings of forwarding to Arthur, which only one function reads. Without a host, nothing is forwarded. */
import * as z from 'zod';
import { capturePrefix, described, secretArn, serverUrlFault, textWithout } from './kinds.ts';

/** Maximum length of Arthur's address in the environment of a function. */
const MAX_HOST_CHARS = 500;

export const forwardSettings = described({
  ARTHUR_HOST: textWithout((text) => {
    const fault = serverUrlFault(text, 'ARTHUR_SECRET_ARN');
    if (fault !== undefined) return fault;
    const { protocol, hostname } = new URL(text);
    const isLocal = ['localhost', '127.0.0.1', '[::1]'].includes(hostname);
    return protocol === 'http:' && !isLocal ? 'http only for localhost: the token would be readable' : undefined;
  })
    .pipe(z.string().max(MAX_HOST_CHARS))
    .optional(),
  ARTHUR_MODEL_ID: z
    .string()
    .regex(/^[\w-]{1,100}$/)
    .optional(),
  ARTHUR_SECRET_ARN: secretArn,
  /** Default: the prefix of the captures. */
  ARTHUR_S3_PREFIX: capturePrefix,
  ARTHUR_S3_SUFFIX: z
    .string()
    .regex(/^[^\p{Cc}]{0,100}\.jsonl$/u)
    .default('.jsonl'),
});
