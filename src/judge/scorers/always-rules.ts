/**
 * Always rules have captures judged even if sampling would skip them. The setting is `EVALUATION_ALWAYS`:
 *
 *   [{"name": "long replies", "replyTokensOver": 800},
 *    {"name": "the new variant", "variant": "Challenger"},
 *    {"name": "personal data", "flaggedBy": {"scorer": "pii_detected", "is": true}}]
 *
 * All conditions of a rule must be met. One matching rule is enough.
 */
import * as z from 'zod';
import { ofContent } from '../../captures/content.ts';
import { capturePathOf } from '../../captures/files/capture-path.ts';
import { replyTexts } from '../../captures/reply-text.ts';
import type { Capture } from '../../captures/types.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { estimateTokens } from '../tokens.ts';
import type { CodeScorer } from '../types.ts';
import { scoreOf } from './code-scorers.ts';
import { isMet } from './values.ts';

const flagSchema = z
  .strictObject({
    /** Name of a code scorer. Code scorers cost nothing, so they can run first. */
    scorer: z.string().min(1),
    is: z.union([z.string(), z.number(), z.boolean()]).optional(),
    over: z.number().optional(),
    under: z.number().optional(),
  })
  .refine((flag) => flag.is !== undefined || flag.over !== undefined || flag.under !== undefined, {
    message: 'at least one of is, over, under is required',
  });

const ruleSchema = z
  .strictObject({
    name: z.string().min(1),
    /** Tokens of the reply, as counted by the endpoint or else estimated. */
    replyTokensOver: z.number().int().min(0).optional(),
    variant: z.string().min(1).optional(),
    flaggedBy: flagSchema.optional(),
  })
  .refine((rule) => Object.keys(rule).length > 1, { message: 'a rule needs a condition in addition to its name' });

const alwaysRulesSchema = z.array(ruleSchema);
type Rule = z.infer<typeof alwaysRulesSchema>[number];

/** Returns the name of the first rule that matches the capture, or `undefined`. The key of its file names the variant. */
export type AlwaysRule = (capture: Capture, key?: string) => string | undefined;

/** Whether any capture may be sent to the judge with this sample rate and these rules. */
export const mayJudge = (sampleRate: number | undefined, rules: readonly unknown[]): boolean =>
  sampleRate !== 0 || rules.length > 0;

/** Returns the tokens of the reply, as counted by the endpoint or else estimated. */
export const replyTokens = (capture: Capture): number =>
  capture.usage?.outputTokens ??
  ofContent(capture, 'reply tokens', () => {
    const found = replyTexts(capture);
    return 'notJudgeable' in found ? 0 : found.texts.reduce((sum, text) => sum + estimateTokens(text), 0);
  });

/**
 * Combines the rules into one. Error replies are never judged, so no rule matches them.
 * @throws PermanentError `InvalidAlwaysRules`
 */
export function createAlwaysRule(rules: unknown, codeScorers: readonly CodeScorer[]): AlwaysRule {
  const parsed = alwaysRulesSchema.safeParse(rules ?? []);
  const byName = new Map(codeScorers.map((scorer) => [scorer.name, scorer]));
  const unknown = parsed.data?.find(({ flaggedBy }) => flaggedBy !== undefined && !byName.has(flaggedBy.scorer));
  if (!parsed.success || unknown !== undefined) {
    const wrong = parsed.success
      ? `${unknown?.name}: the code scorer ${unknown?.flaggedBy?.scorer} does not exist`
      : z.prettifyError(parsed.error);
    throw new PermanentError('InvalidAlwaysRules', `The always rules are invalid: ${wrong}`, {
      got: rules,
      expected: 'a list of {name, replyTokensOver?, variant?, flaggedBy?: {scorer, is?, over?, under?}}',
      where: 'EVALUATION_ALWAYS',
    });
  }
  const applies = (rule: Rule, capture: Capture, key: string): boolean => {
    if (rule.variant !== undefined && rule.variant !== capturePathOf(key).variant) return false;
    if (rule.replyTokensOver !== undefined && replyTokens(capture) <= rule.replyTokensOver) return false;
    if (rule.flaggedBy === undefined) return true;
    const scored = scoreOf(byName.get(rule.flaggedBy.scorer) as CodeScorer, capture);
    return !('notJudgeable' in scored) && isMet(rule.flaggedBy, scored.value);
  };
  return (capture, key = '') =>
    capture.error === undefined ? parsed.data.find((rule) => applies(rule, capture, key))?.name : undefined;
}
