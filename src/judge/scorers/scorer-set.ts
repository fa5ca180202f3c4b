/** The active scorers: the default set, guidelines from the settings, and the code scorers, validated together. */

import { hash } from 'node:crypto';
import * as z from 'zod';
import { PermanentError } from '../../core/errors/errors.ts';
import type { Guidelines } from '../../core/settings/guidelines-setting.ts';
import { GRAVITIES } from '../../core/values/gravity.ts';
import { describeValues, readValue } from '../../core/values/scorer-values.ts';
import type { CodeScorer, JudgeScorer, Scorer, ScorerExample } from '../types.ts';
import { codeScorers } from './code-scorers.ts';
import { defaultJudgeScorers } from './default-scorers.ts';
import examples from './scorer-examples.json' with { type: 'json' };

/**
 * Examples for the judge, by scorer name: cases that people decided, mostly disagreements between the judge and a
 * person. `inference-monitor calibrate --add-examples` writes them to the JSON file, which may also be edited
 * manually. A scorer with examples has another version (see `withExamples`), which distinguishes verdicts with and
 * without them. They are validated on load.
 */
export const scorerExamples: Readonly<Record<string, readonly ScorerExample[]>> = examples;

/** The name is an assessment's name in MLflow and a property of the judge's JSON schema, where models accept 64 characters. */
const scorerName = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, 'a letter, then letters, digits, _ or -, 64 at most');

/** A question is sent with every capture. At this length it would cost more than most captures. */
const MAX_QUESTION_CHARS = 4000;

const valuesSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('yes-no') }),
  z.strictObject({ kind: z.literal('boolean') }),
  z.strictObject({
    kind: z.literal('categories'),
    values: z
      .array(z.string().trim().min(1))
      .min(2)
      .refine((values) => new Set(values.map((value) => value.toLowerCase())).size === values.length, {
        message: 'categories must differ in more than case',
      }),
  }),
  z
    .strictObject({ kind: z.literal('number'), min: z.number(), max: z.number() })
    .refine(({ min, max }) => min < max, { message: 'min must be less than max' }),
]);

const exampleSchema = z.strictObject({
  request: z.string().optional(),
  reply: z.string(),
  value: z.union([z.string(), z.number(), z.boolean()]),
  rationale: z.string(),
});

const gravity = z
  .enum(GRAVITIES, {
    error: ({ input }) => `got ${JSON.stringify(input).slice(0, 40)}; expected ${GRAVITIES.join(', ')}`,
  })
  .optional();

const judgeScorerSchema = z
  .strictObject({
    kind: z.literal('judge'),
    name: scorerName,
    version: z.string().min(1),
    question: z.string().trim().min(1).max(MAX_QUESTION_CHARS),
    values: valuesSchema,
    needs: z.array(z.enum(['request', 'reply', 'system-prompt', 'tools', 'captured-reply'])).min(1),
    sampleRate: z.number().min(0).max(1).optional(),
    passes: z.enum(['yes', 'no']).optional(),
    gravity,
    isTerse: z.boolean().optional(),
    examples: z.array(exampleSchema).optional(),
  })
  .check((context) => {
    const { values, examples = [] } = context.value;
    for (const [index, { value: input }] of examples.entries()) {
      if (readValue(values, input) === input) continue;
      const message = `${JSON.stringify(input)} is not one of the scorer's values (${describeValues(values)})`;
      context.issues.push({ code: 'custom', input, path: ['examples', index, 'value'], message });
    }
  });

const codeScorerSchema = z.object({
  kind: z.literal('code'),
  name: scorerName,
  version: z.string().min(1),
  description: z.string().min(1),
  fails: z.boolean().optional(),
  gravity,
  score: z.custom<CodeScorer['score']>((value) => typeof value === 'function', 'a function of the capture'),
});

const scorerSetSchema = z
  .array(z.discriminatedUnion('kind', [judgeScorerSchema, codeScorerSchema]))
  .check((context) => {
    const seen = new Set<string>();
    for (const [index, { name }] of context.value.entries()) {
      if (seen.has(name)) {
        context.issues.push({ code: 'custom', input: name, path: [index, 'name'], message: `${name} occurs twice` });
      }
      seen.add(name);
    }
  });

const digest8 = (text: string): string => hash('sha256', text).slice(0, 8);

/** Returns the scorer of a guideline, a sentence that the reply must comply with. Its version is a digest of the sentence. */
export function guidelineScorer(name: string, guideline: Guidelines[string]): JudgeScorer {
  const { text: sentence, gravity } = typeof guideline === 'string' ? { text: guideline } : guideline;
  return {
    kind: 'judge',
    name,
    version: `g-${digest8(sentence)}`,
    question:
      `Does the reply comply with this guideline: ${JSON.stringify(sentence)} ` +
      'no: any part of the guideline is broken. yes: it is kept, or it does not apply to this exchange. ' +
      'Nothing but the guideline matters.',
    values: { kind: 'yes-no' },
    ...(gravity === undefined ? {} : { gravity }),
    needs: ['reply'],
  };
}

/** Returns the scorer with examples for the judge. Its version contains a digest of them. */
export function withExamples(scorer: JudgeScorer, examples: readonly ScorerExample[]): JudgeScorer {
  if (examples.length === 0) return scorer;
  return { ...scorer, examples, version: `${scorer.version}+ex-${digest8(JSON.stringify(examples))}` };
}

/** Returns the scorer whose passing value needs no words. Its version says so: it is another prompt. */
export const terse = (scorer: JudgeScorer): JudgeScorer =>
  scorer.values.kind === 'yes-no' ? { ...scorer, isTerse: true, version: `${scorer.version}+terse` } : scorer;

interface ScorerSettings {
  /** By name. A guideline with the name of a default scorer replaces it. */
  guidelines?: Guidelines;
  /** `failures`: a yes/no scorer that passes answers without words. Default: `all`. */
  rationales?: 'all' | 'failures' | undefined;
  /** Replace the default sets, for tests. */
  judgeScorers?: readonly JudgeScorer[];
  codeScorers?: readonly CodeScorer[];
  examples?: Readonly<Record<string, readonly ScorerExample[]>>;
}

/**
 * Returns all active scorers, LLM scorers first.
 * @throws PermanentError `InvalidScorers` with every problem of the set
 */
export function scorersFor(settings: ScorerSettings = {}): readonly Scorer[] {
  const guidelines = settings.guidelines ?? {};
  const examples = settings.examples ?? scorerExamples;
  const judges = [
    ...(settings.judgeScorers ?? defaultJudgeScorers).filter(({ name }) => !Object.hasOwn(guidelines, name)),
    ...Object.entries(guidelines).map(([name, guideline]) => guidelineScorer(name, guideline)),
  ]
    .map((scorer) => withExamples(scorer, Object.hasOwn(examples, scorer.name) ? (examples[scorer.name] ?? []) : []))
    .map((scorer) => (settings.rationales === 'failures' ? terse(scorer) : scorer));
  return checkScorers([...judges, ...(settings.codeScorers ?? codeScorers)]);
}

/** @throws PermanentError `InvalidScorers` */
export function checkScorers(scorers: readonly Scorer[]): readonly Scorer[] {
  const result = scorerSetSchema.safeParse(scorers);
  if (result.success) return scorers;
  const wrong = result.error.issues.map((issue) => {
    const [index, ...field] = issue.path;
    const name = typeof index === 'number' ? scorers[index]?.name : undefined;
    return `${name ?? 'the set'}${field.length > 0 ? `.${field.join('.')}` : ''}: ${issue.message}`;
  });
  throw new PermanentError('InvalidScorers', `The scorers are invalid: ${wrong.join('; ')}`, {
    where: 'src/judge/scorers/default-scorers.ts, src/judge/scorers/code-scorers.ts and JUDGE_GUIDELINES',
  });
}

export const isJudgeScorer = (scorer: Scorer): scorer is JudgeScorer => scorer.kind === 'judge';
export const isCodeScorer = (scorer: Scorer): scorer is CodeScorer => scorer.kind === 'code';
