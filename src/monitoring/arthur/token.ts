/** Arthur's token, from Secrets Manager. */

import { loadSecret, wordOf } from '../../core/aws/secret.ts';
import { PermanentError } from '../../core/errors/errors.ts';

/** @throws PermanentError `ArthurSecretUnreadable` without the text, RetryableError `ArthurUnavailable` while Secrets Manager fails */
export async function loadToken(secretArn: string): Promise<string> {
  const names = { unreadable: 'ArthurSecretUnreadable', unavailable: 'ArthurUnavailable' } as const;
  const token = wordOf(await loadSecret(undefined, secretArn, names, 'Arthur’s token'), 'token');
  if (token !== undefined) return token;
  throw new PermanentError('ArthurSecretUnreadable', 'Arthur’s secret contains no token', {
    expected: 'the token as plain text, one word of ASCII characters, or JSON {"token":"…"}, and not a binary secret',
    where: secretArn,
  });
}

/**
 * Does the work with the token, which is kept. If it is no longer accepted, the secret is read again, and if it has another token
 * the work is done once more.
 */
export function withToken(load: () => Promise<string>): <T>(work: (token: string) => Promise<T>) => Promise<T> {
  let kept: string | undefined;
  return async (work) => {
    const used = kept ?? (await load());
    kept = used;
    try {
      return await work(used);
    } catch (error) {
      if ((error as Error).name !== 'ArthurUnauthorized') throw error;
      // Another file may have read it again meanwhile.
      kept = await load();
      if (kept === used) throw error;
      return work(kept);
    }
  };
}
