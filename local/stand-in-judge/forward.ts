/** Forwards a Converse request to the real Bedrock, signed with the user's own credentials. */
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { awsUrl } from '../../src/core/aws/aws-url.ts';
import { signPost } from '../../src/core/aws/signing.ts';
import type { HttpAnswer } from './http-answer.ts';

export interface ForwardTarget {
  region: string;
  /** Overrides the region's own address. */
  endpoint?: string;
}

export type Forwarder = (path: string, body: string) => Promise<HttpAnswer>;

/** Headers of the answer that the SDK reads. */
const PASSED_HEADERS = ['content-type', 'x-amzn-errortype', 'x-amzn-requestid', 'retry-after'];

export function createForwarder({ region, endpoint }: ForwardTarget): Forwarder {
  const base = new URL(endpoint ?? awsUrl('bedrock-runtime', region));
  const signing = { credentials: defaultProvider(), region, service: 'bedrock' };
  return async (path, body) => {
    const url = new URL(path, base);
    const signed = await signPost(signing, url, { 'content-type': 'application/json' }, body);
    const { host: _, ...headers } = signed.headers;
    const response = await fetch(url, { method: 'POST', headers, body });
    const passed = [...response.headers].filter(([name]) => PASSED_HEADERS.includes(name));
    return { status: response.status, headers: Object.fromEntries(passed), body: await response.text() };
  };
}
