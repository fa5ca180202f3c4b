/** Files that AWS writes next to captures or instead of them, recognized by their paths. */
import FILES from './other-files.json' with { type: 'json' };

const OTHERS = FILES.map(({ path, instead }) => ({ form: new RegExp(path), instead }));

/**
 * Describes the file that a user should give instead, if the path belongs to a file without captures. Returns
 * `undefined` if the file may have captures.
 */
export const insteadOf = (path: string): string | undefined =>
  OTHERS.find(({ form }) => form.test(path.replaceAll('\\', '/')))?.instead;
