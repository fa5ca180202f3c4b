/** The settings of what is sent outside of the account, which only the function that sends it reads. */
import * as z from 'zod';
import { capturePrefix, described, secretArn, serverUrlFault, textWithout } from './kinds.ts';

/** Maximum length of an address in the environment of a function. */
const MAX_URL_CHARS = 500;

/** The address of a server. A secret is sent to it. */
const serverUrl = (secretSetting: string) =>
  textWithout((text) => {
    const fault = serverUrlFault(text, secretSetting);
    if (fault !== undefined) return fault;
    const { protocol, hostname } = new URL(text);
    const isLocal = ['localhost', '127.0.0.1', '[::1]'].includes(hostname);
    return protocol === 'http:' && !isLocal ? 'http only for localhost: the secret would be readable' : undefined;
  }).pipe(z.string().max(MAX_URL_CHARS));

/** Of forwarding to Arthur. Without a host, nothing is forwarded. */
export const forwardSettings = described({
  ARTHUR_HOST: serverUrl('ARTHUR_SECRET_ARN').optional(),
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

/** Of sending spans and verdicts to an OpenTelemetry receiver. Without an address, nothing is sent. */
export const otlpSettings = described({
  /** The paths `/v1/traces` and `/v1/logs` are appended. */
  OTLP_ENDPOINT: serverUrl('OTLP_SECRET_ARN').optional(),
  /** Headers of each request. */
  OTLP_SECRET_ARN: secretArn,
  /** `phoenix`: as annotations of spans, by the REST API of Arize Phoenix. */
  OTLP_VERDICTS: z.enum(['logs', 'phoenix']).default('logs'),
});
