/** Arthur's token, from Secrets Manager. */
import { loadSecret, secretOf } from '../../core/aws/secret.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import type { HttpReply } from '../../mlflow/transport.ts';
import { isUnauthorized } from './arthur.ts';

/** @throws PermanentError `ArthurSecretUnreadable` without the text, RetryableError `ArthurUnavailable` while Secrets Manager fails */
export async function loadToken(secretArn: string): Promise<string> {
  const names = { unreadable: 'ArthurSecretUnreadable', unavailable: 'ArthurUnavailable' } as const;
  const { text } = await loadSecret(undefined, secretArn, names, 'Arthur’s token');
  const token = secretOf(text, 'token');
  if (token !== undefined) return token;
  throw new PermanentError('ArthurSecretUnreadable', 'Arthur’s secret contains no token', {
    expected: 'the token as plain text, one word of ASCII characters, or JSON {"token":"…"}, and not a binary secret',
    where: secretArn,
  });
}

/**
 * Posts with the token, which is kept. If it is no longer accepted, the secret is read again, and if it has another token the post is
 * done once more.
 */
export function withToken(load: () => Promise<string>) {
  let kept: string | undefined;
  return async (post: (token: string) => Promise<HttpReply>): Promise<HttpReply> => {
    const used = kept ?? (await load());
    kept = used;
    const reply = await post(used);
    if (!isUnauthorized(reply.status)) return reply;
    // Another file may have read it again meanwhile.
    kept = await load();
    return kept === used ? reply : post(kept);
  };
}
