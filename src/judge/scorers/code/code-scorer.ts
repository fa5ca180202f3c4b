/** Creates code scorers. */
import type { CodeScorer } from '../../types.ts';
import TEXTS from '../code-scorer-texts.json' with { type: 'json' };

/** Returns the scorer of a name, which has a text in `code-scorer-texts.json`. Its version changes when its values do. Default: 1. */
export const codeScorer = (
  name: keyof typeof TEXTS,
  of: Omit<CodeScorer, 'kind' | 'name' | 'version' | 'description'> & { version?: string },
): CodeScorer => ({ kind: 'code', name, version: '1', description: TEXTS[name], ...of });
