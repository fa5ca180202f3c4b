/**
 * The scorers in force: the default set, guidelines from the settings, and the code scorers, checked as one.
 */
import { hash } from 'node:crypto';
import * as z from 'zod';
import { PermanentError } from '../../shared/errors.ts';
import type { CodeScorer, JudgeScorer, Scorer, ScorerExample, ScorerValues } from '../types.ts';
import { codeScorers } from './code-scorers.ts';
import { defaultJudgeScorers } from './default-scorers.ts';
import { scorerExamples } from './scorer-examples.ts';

/** The name is an assessment's name in MLflow and a property of the judge's JSON schema: models accept 64 of these. */
const scorerName = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, 'a letter, then letters, digits, _ or -, 64 at most');

/** A question travels with every capture; one of this length would cost more than most captures themselves. */
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

const judgeScorerSchema = z
  .strictObject({
    kind: z.literal('judge'),
    name: scorerName,
    version: z.string().min(1),
    question: z.string().trim().min(1).max(MAX_QUESTION_CHARS),
    values: valuesSchema,
    needs: z.array(z.enum(['request', 'reply', 'system-prompt', 'tools'])).min(1),
    sampleRate: z.number().min(0).max(1).optional(),
    examples: z.array(exampleSchema).optional(),
  })
  .check((context) => {
    for (const [index, example] of (context.value.examples ?? []).entries()) {
      if (isAllowedValue(context.value.values, example.value)) continue;
      context.issues.push({
        code: 'custom',
        input: example.value,
        path: ['examples', index, 'value'],
        message: `${JSON.stringify(example.value)} is not one of the scorer's values (${describeValues(context.value.values)})`,
      });
    }
  });

const codeScorerSchema = z.object({
  kind: z.literal('code'),
  name: scorerName,
  version: z.string().min(1),
  description: z.string().min(1),
  score: z.custom<CodeScorer['score']>((value) => typeof value === 'function', 'a function of the capture'),
});

const scorerSetSchema = z
  .array(z.discriminatedUnion('kind', [judgeScorerSchema, codeScorerSchema]))
  .check((context) => {
    const seen = new Set<string>();
    for (const [index, { name }] of context.value.entries()) {
      if (seen.has(name)) {
        context.issues.push({ code: 'custom', input: name, path: [index, 'name'], message: `${name} is there twice` });
      }
      seen.add(name);
    }
  });

/** Whether a value is exactly one that the scorer may answer. */
export function isAllowedValue(values: ScorerValues, value: unknown): boolean {
  switch (values.kind) {
    case 'yes-no':
      return value === 'yes' || value === 'no';
    case 'boolean':
      return typeof value === 'boolean';
    case 'categories':
      return typeof value === 'string' && values.values.includes(value);
    case 'number':
      return typeof value === 'number' && value >= values.min && value <= values.max;
  }
}

/** The values in words, as prompts and error messages show them. */
export function describeValues(values: ScorerValues): string {
  switch (values.kind) {
    case 'yes-no':
      return '"yes" or "no"';
    case 'boolean':
      return 'true or false';
    case 'categories':
      return values.values.map((value) => JSON.stringify(value)).join(' or ');
    case 'number':
      return `a number from ${values.min} to ${values.max}`;
  }
}

const digest8 = (text: string): string => hash('sha256', text).slice(0, 8);

/** A guideline: a plain sentence that the reply must comply with. Its version follows from its words. */
export function guidelineScorer(name: string, sentence: string): JudgeScorer {
  return {
    kind: 'judge',
    name,
    version: `g-${digest8(sentence)}`,
    question:
      `Does the reply comply with this guideline: ${JSON.stringify(sentence)} ` +
      'no: any part of the guideline is broken. yes: it is kept, or it does not apply to this exchange. ' +
      'Nothing but the guideline matters.',
    values: { kind: 'yes-no' },
    needs: ['reply'],
  };
}

/** The scorer with examples shown to the judge; its version says which ones. */
export function withExamples(scorer: JudgeScorer, examples: readonly ScorerExample[]): JudgeScorer {
  if (examples.length === 0) return scorer;
  return { ...scorer, examples, version: `${scorer.version}+ex-${digest8(JSON.stringify(examples))}` };
}

interface ScorerSettings {
  /** Plain sentences by name; one with the name of a default scorer takes its place. */
  guidelines?: Readonly<Record<string, string>>;
  /** In place of the default set, for tests and for programs of one's own. */
  judgeScorers?: readonly JudgeScorer[];
  codeScorers?: readonly CodeScorer[];
  examples?: Readonly<Record<string, readonly ScorerExample[]>>;
}

/**
 * All scorers in force, judge scorers first.
 * @throws PermanentError `InvalidScorers` naming every fault of the set.
 */
export function scorersFor(settings: ScorerSettings = {}): readonly Scorer[] {
  const guidelines = settings.guidelines ?? {};
  const examples = settings.examples ?? scorerExamples;
  const judges = [
    ...(settings.judgeScorers ?? defaultJudgeScorers).filter(({ name }) => !Object.hasOwn(guidelines, name)),
    ...Object.entries(guidelines).map(([name, sentence]) => guidelineScorer(name, sentence)),
  ].map((scorer) => withExamples(scorer, Object.hasOwn(examples, scorer.name) ? (examples[scorer.name] ?? []) : []));
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
  throw new PermanentError('InvalidScorers', `The scorers are not valid: ${wrong.join('; ')}`, {
    where: 'src/judge/scorers/default-scorers.ts, src/judge/scorers/code-scorers.ts and JUDGE_GUIDELINES',
  });
}

export const isJudgeScorer = (scorer: Scorer): scorer is JudgeScorer => scorer.kind === 'judge';
export const isCodeScorer = (scorer: Scorer): scorer is CodeScorer => scorer.kind === 'code';
