/**
 * Rules by which a capture is judged although the sample leaves it out, from the setting `EVALUATION_ALWAYS`:
 *
 *   [{"name": "long replies", "replyTokensOver": 800},
 *    {"name": "the new variant", "variant": "Challenger"},
 *    {"name": "personal data", "flaggedBy": {"scorer": "pii_detected", "is": true}}]
 *
 * The conditions of one rule hold together, any rule is enough.
 */
import * as z from 'zod';
import type { Capture } from '../../formats/types.ts';
import { PermanentError } from '../../shared/errors.ts';
import { estimateTokens } from '../prompt/tokens.ts';
import type { CodeScorer } from '../types.ts';
import { replyTexts } from './code/text.ts';

const flagSchema = z
  .strictObject({
    /** Name of a code scorer: it costs nothing, so it can be asked first. */
    scorer: z.string().min(1),
    is: z.union([z.string(), z.number(), z.boolean()]).optional(),
    over: z.number().optional(),
    under: z.number().optional(),
  })
  .refine((flag) => flag.is !== undefined || flag.over !== undefined || flag.under !== undefined, {
    message: 'one of is, over, under is needed',
  });

const ruleSchema = z
  .strictObject({
    name: z.string().min(1),
    /** Tokens of the reply: as the endpoint counted them, else estimated. */
    replyTokensOver: z.number().int().min(0).optional(),
    variant: z.string().min(1).optional(),
    flaggedBy: flagSchema.optional(),
  })
  .refine((rule) => Object.keys(rule).length > 1, { message: 'a rule needs a condition beside its name' });

export const alwaysRulesSchema = z.array(ruleSchema);
type AlwaysRules = z.infer<typeof alwaysRulesSchema>;
type Rule = AlwaysRules[number];

/** What a rule may look at that is not in the capture itself. */
export interface CaptureContext {
  /** The endpoint's variant, from the object's key. */
  variant?: string | undefined;
}

const replyTokens = (capture: Capture): number => {
  if (capture.usage?.outputTokens !== undefined) return capture.usage.outputTokens;
  const found = replyTexts(capture);
  return 'notJudgeable' in found ? 0 : found.texts.reduce((sum, text) => sum + estimateTokens(text), 0);
};

function isFlagged(flag: NonNullable<Rule['flaggedBy']>, scorer: CodeScorer, capture: Capture): boolean {
  const scored = scorer.score(capture);
  if ('notJudgeable' in scored) return false;
  const { value } = scored;
  if (flag.is !== undefined && value !== flag.is) return false;
  if (flag.over !== undefined && !(typeof value === 'number' && value > flag.over)) return false;
  return flag.under === undefined || (typeof value === 'number' && value < flag.under);
}

/**
 * The rules as a function of the capture: the name of the first rule that applies, or `undefined`. Errors are never
 * judged, so no rule applies to them.
 * @throws PermanentError `InvalidAlwaysRules`
 */
export function createAlwaysRule(
  rules: unknown,
  codeScorers: readonly CodeScorer[],
): (capture: Capture, context?: CaptureContext) => string | undefined {
  const parsed = alwaysRulesSchema.safeParse(rules ?? []);
  const byName = new Map(codeScorers.map((scorer) => [scorer.name, scorer]));
  const unknown = parsed.data?.find(({ flaggedBy }) => flaggedBy !== undefined && !byName.has(flaggedBy.scorer));
  if (!parsed.success || unknown !== undefined) {
    const wrong = parsed.success
      ? `${unknown?.name}: there is no code scorer ${unknown?.flaggedBy?.scorer}`
      : z.prettifyError(parsed.error);
    throw new PermanentError('InvalidAlwaysRules', `The rules of what is always judged are not valid: ${wrong}`, {
      got: rules,
      expected: 'a list of {name, replyTokensOver?, variant?, flaggedBy?: {scorer, is?, over?, under?}}',
      where: 'EVALUATION_ALWAYS',
    });
  }
  const applies = (rule: Rule, capture: Capture, context: CaptureContext): boolean => {
    if (rule.variant !== undefined && rule.variant !== context.variant) return false;
    if (rule.replyTokensOver !== undefined && replyTokens(capture) <= rule.replyTokensOver) return false;
    const scorer = rule.flaggedBy && byName.get(rule.flaggedBy.scorer);
    return rule.flaggedBy === undefined || (scorer !== undefined && isFlagged(rule.flaggedBy, scorer, capture));
  };
  return (capture, context = {}) =>
    capture.error === undefined ? parsed.data.find((rule) => applies(rule, capture, context))?.name : undefined;
}
