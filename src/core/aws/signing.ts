/** Signs requests to AWS services without using their clients. */
import { Hash } from '@smithy/core/serde';
import { SignatureV4 } from '@smithy/signature-v4';

/** Node's SHA-256, as the signer takes it. */
export const SHA256 = Hash.bind(null, 'sha256');

type Signing = Pick<ConstructorParameters<typeof SignatureV4>[0], 'credentials' | 'region' | 'service'>;

export const signPost = (signing: Signing, url: URL, headers: Record<string, string>, body: string) =>
  new SignatureV4({ ...signing, sha256: SHA256 }).sign({
    method: 'POST',
    protocol: url.protocol,
    hostname: url.hostname,
    port: url.port ? Number(url.port) : undefined,
    path: url.pathname,
    query: {},
    headers: { host: url.host, ...headers },
    body,
  });
