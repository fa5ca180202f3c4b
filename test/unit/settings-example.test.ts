/** `.env.example` is the starting point for users: it must name every setting, and be valid once filled in. */
import { readFileSync } from 'node:fs';
import { parse as parseDotenv } from 'dotenv';
import { functionEnvironment } from '../../lib/settings/function-environment.ts';
import { parseSettings, REQUIRED_SETTING_NAMES, SETTING_NAMES } from '../../lib/settings/settings.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import type { Settings } from '../../src/core/settings/schema.ts';

const text = readFileSync('.env.example', 'utf8');
const required: Record<string, string> = {
  STACK_PREFIX: 'prod',
  MLFLOW_TRACKING_URI: 'https://mlflow.example.com',
  SAGEMAKER_ENDPOINT_NAME: 'my-endpoint',
  DATA_CAPTURE_S3_BUCKET: 'my-captures',
};

const filledIn = text.replace(/^([A-Z0-9_]+)=$/gm, (_, name: string) => `${name}=${required[name]}`);
const uncommented = filledIn.replace(/^#(?=[A-Z0-9_]+=)/gm, '');

/** The paragraph of a setting: its comment, and the line that sets it. */
function paragraphOf(name: string): string {
  const paragraphs = text.split('\n\n').filter((paragraph) => new RegExp(`^#?${name}=`, 'm').test(paragraph));
  expect(paragraphs).toHaveLength(1);
  return paragraphs[0] ?? '';
}

it('names every setting, the required ones first and without a value', () => {
  const names = [...text.matchAll(/^#?([A-Z0-9_]+)=/gm)].map(([, name]) => name);
  // The region is a setting of the commands, not of the stack.
  expect(names.toSorted()).toEqual([...SETTING_NAMES, 'AWS_REGION'].toSorted());
  expect(names.slice(0, REQUIRED_SETTING_NAMES.length)).toEqual(REQUIRED_SETTING_NAMES);
  const [, ofFirstDeployment = ''] = text.split(/^# -{20,} .*$/m);
  expect(ofFirstDeployment.match(/^#?[A-Z0-9_]+=/gm)?.length).toBeLessThanOrEqual(12);
  expect(Object.keys(parseDotenv(text))).toEqual(REQUIRED_SETTING_NAMES);
});

it.each(SETTING_NAMES)('documents %s in one to three lines', (name) => {
  const comment = paragraphOf(name)
    .split('\n')
    .filter((line) => line.startsWith('# '));
  expect(comment.length).toBeGreaterThanOrEqual(1);
  expect(comment.length).toBeLessThanOrEqual(3);
  expect(comment.join(' ').length).toBeGreaterThan(40);
});

it('is valid once the required values are filled in', () => {
  expect(parseSettings(parseDotenv(filledIn))).toEqual(parseSettings(required));
});

it('has only valid examples, also all of them together', () => {
  const { ARTHUR_HOST, ...others } = parseDotenv(uncommented);
  // Arthur gets the files themselves, so it is refused where captures are masked.
  const forwarded = parseSettings({ ...others, ARTHUR_HOST, REDACT: undefined });
  const settings = { ...parseSettings(others), ARTHUR_HOST: forwarded.ARTHUR_HOST };
  for (const name of SETTING_NAMES) expect(settings[name as keyof Settings]).toBeDefined();
});

it('shows the default of every setting that has one', () => {
  const defaults = parseSettings(required);
  const examples = parseSettings({ ...parseDotenv(uncommented), REDACT: undefined });
  for (const name of SETTING_NAMES as (keyof Settings)[]) {
    const statesIt = /no default|Default: the endpoint's name/s.test(paragraphOf(name).replaceAll(/\n# ?/g, ' '));
    if (statesIt || REQUIRED_SETTING_NAMES.includes(name)) continue;
    expect({ [name]: examples[name] }).toEqual({ [name]: defaults[name] });
  }
});

it.each([
  ['the defaults', required],
  ['every example', { ...parseDotenv(uncommented), ARTHUR_HOST: '' }],
])('becomes an environment that the functions accept, with %s', (_, variables) => {
  const environment = functionEnvironment(parseSettings(variables), 'work-bucket', 'budget-table');
  const { STACK_PREFIX, BEDROCK_MODEL_ID, DATA_CAPTURE_S3_PREFIX, EVALUATION_BUDGET_USD } =
    readEnvironment(environment);
  expect({ STACK_PREFIX, BEDROCK_MODEL_ID, EVALUATION_BUDGET_USD }).toEqual({
    STACK_PREFIX: 'prod',
    BEDROCK_MODEL_ID: 'global.anthropic.claude-sonnet-5-5',
    EVALUATION_BUDGET_USD: 20,
  });
  expect(DATA_CAPTURE_S3_PREFIX).toMatch(/my-endpoint\/$/);
});
