/**
 * Examples for the judge, by scorer name: cases that people decided, mostly disagreements between the judge and a person.
 * `inference-monitor calibrate --add-examples` writes them to the JSON file, which may also be edited manually. A scorer with
 * examples has another version (see `withExamples`), which distinguishes verdicts with and without them. `scorer-set.ts`
 * validates them on load.
 */
import type { ScorerExample } from '../types.ts';
import examples from './scorer-examples.json' with { type: 'json' };

export const scorerExamples: Readonly<Record<string, readonly ScorerExample[]>> = examples;
