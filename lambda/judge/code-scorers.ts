/**
 * The default set of code scorers: functions of the capture that ask no model and cost nothing. Add, change or remove
 * one here; each says in its description what it measures and what it does not.
 */
import { outputTokens, responseLength, responseWords } from './code-scorers/counts.ts';
import type { CodeScorer } from './types.ts';

export const codeScorers: readonly CodeScorer[] = [responseWords, outputTokens, responseLength];
