/**
 * A cascade in batch inference, record by record: the records of the first round are answered with failures at random, the
 * product reads the answers and makes the records of the second round. No model is asked. Tokens are those of the very texts.
 */
import type { Capture } from '../../src/formats/types.ts';
import { answerSchemaText } from '../../src/judge/answer/answer-schema.ts';
import { readBatchAnswers } from '../../src/judge/batch/answers.ts';
import type { BatchRecord } from '../../src/judge/batch/record.ts';
import { askedFirst } from '../../src/judge/cascade.ts';
import { connectBatchJudge } from '../../src/judge/connect.ts';
import { FAILING_SHARE } from '../../src/judge/pricing/ask-size.ts';
import { estimateTokens } from '../../src/judge/prompt/tokens.ts';
import { applicability } from '../../src/judge/scorers/applicability.ts';
import { isJudgeScorer } from '../../src/judge/scorers/scorer-set.ts';
import { isPass } from '../../src/judge/scorers/values.ts';
import type { JudgeScorer } from '../../src/judge/types.ts';
import { readEnvironment } from '../../src/settings/environment.ts';
import { Random } from '../../src/shared/random.ts';

/** Two sentences, as long as the estimator expects a rationale: 60% of 130 tokens, without the name and the braces. */
const WORDS = 'It does so. '.repeat(20);

/** Settings that a function needs and the judge does not. */
const UNUSED = {
  STACK_PREFIX: 'bench',
  WORK_BUCKET: 'bench',
  SAGEMAKER_ENDPOINT_NAME: 'bench',
  DATA_CAPTURE_S3_BUCKET: 'bench',
  DATA_CAPTURE_S3_PREFIX: 'bench/',
  MLFLOW_TRACKING_URI: 'http://127.0.0.1:1',
  MLFLOW_EXPERIMENT_NAME: 'bench',
};

/** How failures are spread: so many of a capture fail together; 1: each by itself. */
export type Together = number;

interface Measured {
  /** Dollars per 1,000 captures. */
  per1000: number;
  /** The share of the captures that the second round asks about, and the input tokens of its records. */
  again: number;
  againTokens: number;
  /** The input tokens of such a record if it asked all questions again. */
  wholeTokens: number;
}

/** Returns a value that passes, or one that does not. */
function valueThat(scorer: JudgeScorer, passes: boolean): unknown {
  const { values } = scorer;
  const all = values.kind === 'categories' ? values.values : values.kind === 'yes-no' ? ['yes', 'no'] : [true, false];
  return all.find((value) => isPass(scorer, value as string) === passes) ?? all[0];
}

function answerTo(scorers: readonly JudgeScorer[], failing: ReadonlySet<string>): string {
  const entries = scorers.map((scorer) => {
    const passes = !failing.has(scorer.name);
    const value = valueThat(scorer, passes);
    if (scorer.isTerse && passes) return [scorer.name, value];
    return [scorer.name, { rationale: WORDS, value, ...(scorer.asksIfSure ? { sure: true } : {}) }];
  });
  return JSON.stringify(Object.fromEntries(entries));
}

function tokensOf({ modelInput }: BatchRecord, scorers: readonly JudgeScorer[]): number {
  const { system, messages, outputConfig } = modelInput as Record<string, unknown>;
  // Without the JSON around the texts, and with the schema if the record has one.
  const texts = JSON.stringify([system, messages]).match(/"text":"(?:[^"\\]|\\.)*"/g) ?? [];
  return estimateTokens(texts.join('')) + (outputConfig === undefined ? 0 : estimateTokens(answerSchemaText(scorers)));
}

/** Judges so many captures, all the same, of whose verdicts a tenth fails. */
export async function inRounds(
  models: { first: string; main: string },
  capture: Capture,
  together: Together,
  captures: number,
): Promise<Measured> {
  const variables = { BEDROCK_MODEL_ID: models.main, JUDGE_CASCADE: models.first, JUDGE_RATIONALES: 'failures' };
  const { again, ...first } = connectBatchJudge(readEnvironment({ ...UNUSED, ...variables }));
  if (again === undefined) throw new Error('The settings have no cascade');
  const scorers = first.batchScorers
    .filter(isJudgeScorer)
    .filter((scorer) => 'judge' in applicability(capture, scorer));
  const random = new Random(together);
  let usd = 0;
  let asked = 0;
  let againTokens = 0;
  let wholeTokens = 0;
  for (let n = 0; n < captures; n += 1) {
    const failing = failingOf(scorers, together, random);
    const early = answered(first.record(`tr-${n}`, capture, scorers), scorers.map(askedFirst), failing);
    usd += first.priceOf(early) ?? Number.NaN;
    const open = await first.leftOpen(capture, scorers, early);
    if (open.length === 0) continue;
    const late = answered(again.record(`tr-${n}`, capture, open), open, failing);
    usd += again.priceOf(late) ?? Number.NaN;
    asked += 1;
    againTokens += late.usage.inputTokens;
    wholeTokens += tokensOf(again.record(`tr-${n}`, capture, scorers), scorers);
  }
  return {
    per1000: (usd / captures) * 1000,
    again: asked / captures,
    againTokens: againTokens / asked,
    wholeTokens: wholeTokens / asked,
  };
}

function failingOf(scorers: readonly JudgeScorer[], together: Together, random: Random): Set<string> {
  if (together === 1) return new Set(scorers.filter(() => random.next() < FAILING_SHARE).map(({ name }) => name));
  if (random.next() >= (FAILING_SHARE * scorers.length) / together) return new Set();
  const from = random.below(scorers.length);
  return new Set(scorers.map((_, i) => scorers[(from + i) % scorers.length]?.name ?? '').slice(0, together));
}

/** The answer to a record as the product reads it from the output of a job. */
function answered(record: BatchRecord, scorers: readonly JudgeScorer[], failing: ReadonlySet<string>) {
  const text = answerTo(scorers, failing);
  const [inputTokens, outputTokens] = [tokensOf(record, scorers), estimateTokens(text)];
  const message = { role: 'assistant', content: [{ text }] };
  const usage = { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens };
  const modelOutput = { output: { message }, stopReason: 'end_turn', usage };
  const line = JSON.stringify({ recordId: record.recordId, modelOutput });
  const answer = readBatchAnswers(line).get(record.recordId);
  if (answer === undefined) throw new Error('The product does not read the answer');
  return answer;
}
