/**
 * The default set of code scorers: functions of the capture that ask no model and cost nothing. Add, change or remove
 * one here; each says in its description what it measures and what it does not.
 */
import { outputTokens, responseLength, responseWords } from './code-scorers/counts.ts';
import { cutOff } from './code-scorers/cut-off.ts';
import { validJson } from './code-scorers/json.ts';
import { replyLanguage, requestLanguage } from './code-scorers/language.ts';
import { piiDetected } from './code-scorers/pii.ts';
import { repeatedText } from './code-scorers/repetition.ts';
import type { CodeScorer } from './types.ts';

export const codeScorers: readonly CodeScorer[] = [
  responseWords,
  outputTokens,
  responseLength,
  validJson,
  piiDetected,
  requestLanguage,
  replyLanguage,
  repeatedText,
  cutOff,
];
