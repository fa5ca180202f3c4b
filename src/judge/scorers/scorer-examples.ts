/**
 * Examples shown to the judge, by scorer name: cases that people have decided, mostly taken from disagreements between
 * the judge and a person (`inference-monitor calibrate --add-examples` writes them to the JSON file; it may be edited by
 * hand). A scorer with examples has another version (see `withExamples`), so that verdicts given with and without them can
 * be told apart. `scorers.ts` checks them when they are loaded.
 */

import type { ScorerExample } from '../types.ts';
import examples from './scorer-examples.json' with { type: 'json' };

export const scorerExamples: Readonly<Record<string, readonly ScorerExample[]>> = examples;
