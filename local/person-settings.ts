/** The settings of a person's own that a local run takes over. */
import { existsSync, readFileSync } from 'node:fs';
import { parse } from 'dotenv';
import { projectPath } from './project-root.ts';

/** What is decoded and how it is judged; everything else in `.env` names resources on AWS, which a local run must not touch. */
const TAKEN_OVER = [
  'BEDROCK_MODEL_ID',
  'MLFLOW_EVALUATION_MODEL_PARAM',
  'EVALUATION_SAMPLE_RATE',
  'JUDGE_CALLS',
  'JUDGE_GUIDELINES',
  'JUDGE_PRICES',
  'CSV_HEADER',
  'FEATURE_NAMES',
  'MAX_LINE_BYTES',
];

/**
 * Settings from `.env` and the environment, which wins.
 *
 * @param realJudge judging costs money, so the person's budget holds; the stand-in's costs are none
 */
export function personSettings(realJudge: boolean): Record<string, string> {
  const file = projectPath('.env');
  const dotenv = existsSync(file) ? parse(readFileSync(file)) : {};
  const names = realJudge ? [...TAKEN_OVER, 'EVALUATION_BUDGET_USD'] : TAKEN_OVER;
  const own = names.flatMap((name) => {
    const value = process.env[name] || dotenv[name];
    return value ? [[name, value]] : [];
  });
  return { ...(realJudge ? {} : { EVALUATION_BUDGET_USD: '0' }), ...Object.fromEntries(own) };
}
