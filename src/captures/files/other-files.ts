/** Files that AWS writes beside captures, or in their place. Their paths name them. */
import FILES from './other-files.json' with { type: 'json' };

const OTHERS = FILES.map(({ path, instead }) => ({ form: new RegExp(path), instead }));

/** Returns what is expected in place of a file that has no captures by its path; `undefined` if it may have some. */
export const insteadOf = (path: string): string | undefined =>
  OTHERS.find(({ form }) => form.test(path.replaceAll('\\', '/')))?.instead;
