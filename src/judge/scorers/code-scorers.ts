/**
 * The default set of code scorers: functions of the capture that need no model and cost nothing. Add, change or remove
 * one here. Each description states what the scorer measures and what it does not.
 */
import { ofContent } from '../../captures/content.ts';
import type { Capture } from '../../captures/types.ts';
import type { CodeScorer } from '../types.ts';
import { outputTokens, responseLength, responseWords } from './code/counts.ts';
import { cutOff } from './code/cut-off.ts';
import { validJson } from './code/json.ts';
import { replyLanguage, requestLanguage } from './code/language.ts';
import { piiDetected } from './code/pii.ts';
import { repeatedText } from './code/repetition.ts';

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

/** Returns what a code scorer says of a capture, also of one whose content is in another process. */
export const scoreOf = (scorer: CodeScorer, capture: Capture): ReturnType<CodeScorer['score']> =>
  ofContent(capture, `score ${scorer.name}`, () => scorer.score(capture));
