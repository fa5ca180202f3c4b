/** The active scorers: the default set, guidelines from the settings, and the code scorers, validated together. */

import { hash } from 'node:crypto';
import * as z from 'zod';
import type { Capture } from '../../captures/types.ts';
import type { LabelScorer } from '../../core/contract/ground-truth.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import type { Guidelines } from '../../core/settings/guidelines-setting.ts';
import { functionArn, type ScorerFunctions } from '../../core/settings/scorer-functions-setting.ts';
import { codeScorerSchema, judgeScorerSchema } from '../scorer-schema.ts';
import type { CodeScorer, FunctionScorer, JudgeScorer, Scorer, ScorerExample } from '../types.ts';
import { codeScorers } from './code-scorers.ts';
import defaultScorers from './default-scorers.json' with { type: 'json' };
import examples from './scorer-examples.json' with { type: 'json' };

/**
 * The default LLM scorers. To add, change (with its version) or remove a scorer, edit the list in `default-scorers.json`.
 *
 * Where MLflow has a built-in judge, the scorer uses its name and values, so that MLflow's pages and Python client show these
 * verdicts like its own. Questions are short, because all of them are sent with every capture.
 */
export const defaultJudgeScorers = defaultScorers as readonly JudgeScorer[];

/**
 * Examples for the judge, by scorer name: cases that people decided, mostly disagreements between the judge and a
 * person. `inference-monitor calibrate --add-examples` writes them to the JSON file, which may also be edited
 * manually. A scorer with examples has another version (see `withExamples`), which distinguishes verdicts with and
 * without them. They are validated on load.
 */
export const scorerExamples: Readonly<Record<string, readonly ScorerExample[]>> = examples;

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
  const { text: sentence, severity } = typeof guideline === 'string' ? { text: guideline } : guideline;
  return {
    kind: 'judge',
    name,
    version: `g-${digest8(sentence)}`,
    question:
      `Does the reply comply with this guideline: ${JSON.stringify(sentence)} ` +
      'no: any part of the guideline is broken. yes: it is kept, or it does not apply to this exchange. ' +
      'Nothing but the guideline matters.',
    values: { kind: 'yes-no' },
    ...(severity === undefined ? {} : { severity }),
    needs: ['reply'],
  };
}

/** Returns the scorer of a function. Its version is that of the function. */
export function functionScorer(name: string, { arn: given, ...of }: ScorerFunctions[string]): JudgeScorer {
  const { arn, qualifier } = functionArn(given);
  const { values, better, severity, needs, share, ...cost } = of;
  return {
    kind: 'judge',
    name,
    version: qualifier,
    question: `Asks ${given}`,
    values: typeof values === 'string' ? { kind: values } : { kind: 'categories', values },
    passes: better === 'high' ? 'yes' : 'no',
    ...{ severity, needs },
    ...(share !== undefined && { sampleRate: share }),
    asks: { arn, qualifier, ...cost },
  };
}

/** Returns the id of a scorer's function on assessments, such as `lambda:/faithfulness:7`; empty without one. */
export const functionSource = ({ asks }: JudgeScorer): string =>
  asks === undefined ? '' : `lambda:/${asks.arn.split(':').at(-1)}:${asks.qualifier}`;

/** Returns the ARN of a scorer's function with its version or alias. Equal records have the same answer from it. */
export const functionArnOf = ({ asks }: FunctionScorer): string => `${asks.arn}:${asks.qualifier}`;

/** Returns the scorer with a version of its function in place of an alias. */
export const withVersion = (scorer: FunctionScorer, qualifier = scorer.version): FunctionScorer => ({
  ...scorer,
  version: qualifier,
  asks: { ...scorer.asks, qualifier },
});

/** Returns the scorer with examples for the judge. Its version contains a digest of them. */
export function withExamples(scorer: JudgeScorer, examples: readonly ScorerExample[]): JudgeScorer {
  if (examples.length === 0) return scorer;
  return { ...scorer, examples, version: `${scorer.version}+ex-${digest8(JSON.stringify(examples))}` };
}

/** Returns the scorer without a rationale for its passing value. The version changes, because the prompt does. */
const terse = (scorer: JudgeScorer): JudgeScorer =>
  scorer.values.kind === 'yes-no' ? { ...scorer, isTerse: true, version: `${scorer.version}+terse` } : scorer;

interface ScorerSettings {
  /** Guidelines by name. A guideline with the name of a default scorer replaces it. */
  guidelines?: Guidelines;
  /** `failures`: a yes/no scorer that passes answers without a rationale. Default: `all`. */
  rationales?: 'all' | 'failures' | undefined;
  examples?: typeof scorerExamples;
  functions?: ScorerFunctions;
}

/**
 * Returns all active scorers: those of the judge, of functions, and in code.
 * @throws PermanentError `InvalidScorers` with every problem of the set
 */
export function scorersFor(settings: ScorerSettings = {}): readonly Scorer[] {
  const guidelines = settings.guidelines ?? {};
  const examples = settings.examples ?? scorerExamples;
  const judges = [
    ...defaultJudgeScorers.filter(({ name }) => !Object.hasOwn(guidelines, name)),
    ...Object.entries(guidelines).map(([name, guideline]) => guidelineScorer(name, guideline)),
  ]
    .map((scorer) => withExamples(scorer, Object.hasOwn(examples, scorer.name) ? (examples[scorer.name] ?? []) : []))
    .map((scorer) => (settings.rationales === 'failures' ? terse(scorer) : scorer));
  const functions = Object.entries(settings.functions ?? {}).map(([name, of]) => functionScorer(name, of));
  return checkScorers([...judges, ...functions, ...codeScorers]);
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
    where:
      'src/judge/scorers/default-scorers.json, src/judge/scorers/code-scorers.ts, JUDGE_GUIDELINES and SCORER_FUNCTIONS',
  });
}

export const isJudgeScorer = (scorer: Scorer): scorer is JudgeScorer => scorer.kind === 'judge';
/** A scorer that asks a model, and no function. */
export const isModelScorer = (scorer: Scorer): scorer is JudgeScorer =>
  scorer.kind === 'judge' && scorer.asks === undefined;
export const isFunctionScorer = (scorer: Scorer): scorer is FunctionScorer =>
  scorer.kind === 'judge' && scorer.asks !== undefined;
export const isCodeScorer = (scorer: Scorer): scorer is CodeScorer => scorer.kind === 'code';

/**
 * Returns the scorers that a capture is asked about. @param capture if absent, returns the scorers that every capture
 * is asked about
 */
export const askedOf = <S extends Scorer>(scorers: readonly S[], capture?: Capture): S[] =>
  scorers.filter(
    (scorer) =>
      scorer.kind === 'judge' || scorer.isAsked === undefined || (capture !== undefined && scorer.isAsked(capture)),
  );

/** Returns the scorers that people may label, with the allowed labels: yes or no for a code scorer that can fail, any text for other code scorers. */
export const labelScorers = (scorers: readonly Scorer[]): LabelScorer[] =>
  askedOf(scorers).map((scorer) => {
    const { name } = scorer;
    if (scorer.kind === 'judge') return { name, values: scorer.values };
    return scorer.fails === undefined ? { name } : { name, values: { kind: 'boolean' } };
  });
