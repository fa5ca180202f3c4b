/**
 * Examples shown to the judge, by scorer name: cases that people have decided, mostly taken from disagreements between
 * the judge and a person. A scorer with examples has another version (see `withExamples`), so that verdicts given
 * with and without them can be told apart.
 */
import type { ScorerExample } from './types.ts';

export const scorerExamples: Readonly<Record<string, readonly ScorerExample[]>> = {};
