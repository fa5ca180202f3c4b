/** The tables of docs/scale.md: the calls of a capture, the quotas of an account, and how many captures a second they take. */
import { defaultJudgeModel } from '../../src/core/settings/variables.ts';
import { estimateFromSizes } from '../../src/judge/pricing/estimate.ts';
import { scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { FRESH_ACCOUNT } from '../../test/doubles/quota-shim/limits.ts';
import { chatRecord } from '../support/records.ts';
import type { Counted, Counts } from './counts.ts';

const RATES = [1, 10, 100, 1000] as const;
/** What is kept free above the average load, so that a backlog shrinks after a burst. */
const HEADROOM = 1.3;
/** Functions that other work of the stack needs beside those of `MAX_FUNCTIONS`. */
const SPARED_FUNCTIONS = 2;
/** Seconds in which a judge answers (bench/cost.ts). */
const JUDGE_SECONDS = 10;

/** What judging a capture takes of the quotas by the product's own estimate, on average. */
const JUDGED_CAPTURE = (() => {
  const captures = 1000;
  const settings = {
    BEDROCK_MODEL_ID: defaultJudgeModel() ?? '',
    EVALUATION_BUDGET_USD: 0,
    JUDGE_PRICES: {},
    MLFLOW_EVALUATION_MODEL_PARAM: {},
  };
  const bytes = captures * Buffer.byteLength(chatRecord(1));
  const estimate = estimateFromSizes(settings, scorersFor(), { judge: 'converse', sampleRate: 1 }, { captures, bytes });
  const { judgeCalls, inputTokens, outputTokens } = estimate;
  const tokens = inputTokens + outputTokens * FRESH_ACCOUNT.outputBurndown;
  return { calls: judgeCalls / captures, tokens: tokens / captures };
})();

/** Of a new on-demand table, a second. */
const TABLE_WRITES = 4000;

interface Demand {
  name: string;
  /** Units of a capture, by captures a file. */
  units: number[];
  /** The quota of a new account, in units a second, and as AWS says it. */
  quota: number;
  said: string;
  source: string;
  /** The captures a second that the quota takes, at the most units. */
  captures: number;
}

const number = (value: number): string => Math.round(value).toLocaleString('en-US');
const aSecond = (quota: number): Pick<Demand, 'quota' | 'said'> => ({ quota, said: `${number(quota)} a second` });
const aMinute = (quota: number): Pick<Demand, 'quota' | 'said'> => ({
  quota: quota / 60,
  said: `${number(quota)} a minute`,
});

const AWS = 'https://docs.aws.amazon.com';
const BEDROCK = `[Bedrock](${AWS}/bedrock/latest/userguide/quotas.html); a new account has less than the default`;
const DYNAMODB = `${AWS}/amazondynamodb/latest/developerguide/warm-throughput-scenarios.html`;
const STEP_FUNCTIONS = `[Step Functions](${AWS}/step-functions/latest/dg/service-quotas.html)`;
const S3 = `[S3](${AWS}/AmazonS3/latest/userguide/optimizing-performance.html), for each prefix`;
const { lambdaConcurrency, mlflow, judgeRequestsPerMinute, judgeTokensPerMinute, startExecution, s3Writes, s3Reads } =
  FRESH_ACCOUNT;

/** @returns what a capture asks for of each quota, the tightest quota first */
export function demandsOf({ counted }: Counts): Demand[] {
  const units = (of: (counts: Counted) => number): number[] =>
    counted.map((each) => of(each) / (each.captures * each.files));
  const judged = (each: number): number[] => counted.map(() => each);
  const all: Omit<Demand, 'captures'>[] = [
    { name: 'judge tokens', units: judged(JUDGED_CAPTURE.tokens), ...aMinute(judgeTokensPerMinute), source: BEDROCK },
    { name: 'judge calls', units: judged(JUDGED_CAPTURE.calls), ...aMinute(judgeRequestsPerMinute), source: BEDROCK },
    {
      ...{ name: 'MLflow requests', units: units(({ mlflow }) => mlflow), ...aSecond(mlflow.perSecond) },
      source: 'reported of the smallest managed MLflow; AWS publishes none',
    },
    {
      ...{ name: 'seconds of functions', units: units(({ units: { lambdaGbSecond } }) => lambdaGbSecond) },
      ...{ quota: lambdaConcurrency, said: `${lambdaConcurrency} at the same time` },
      source: `[Lambda](${AWS}/lambda/latest/dg/gettingstarted-limits.html)`,
    },
    {
      ...{ name: 'state transitions', units: units(({ units: { stateTransition } }) => stateTransition) },
      ...{ ...aSecond(800), source: `${STEP_FUNCTIONS}; 5,000 in the largest Regions, less in a new account` },
    },
    {
      ...{ name: '`StartExecution`', units: units(({ runs }) => runs), ...aSecond(startExecution.perSecond) },
      source: STEP_FUNCTIONS,
    },
    {
      ...{ name: 'DynamoDB’s write units', units: units(({ units: { dynamodbWriteUnit } }) => dynamodbWriteUnit) },
      ...{ ...aSecond(TABLE_WRITES), source: `[DynamoDB](${DYNAMODB}), for each table` },
    },
    {
      name: 'S3’s writes',
      units: units(({ units: { s3Write } }) => s3Write),
      ...aSecond(s3Writes.perSecond),
      source: S3,
    },
    { name: 'S3’s reads', units: units(({ units: { s3Read } }) => s3Read), ...aSecond(s3Reads.perSecond), source: S3 },
  ];
  return all
    .map((each) => ({ ...each, captures: each.quota / Math.max(...each.units) }))
    .toSorted((a, b) => a.captures - b.captures);
}

const roundUp = (value: number): number => {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
  return Math.ceil(value / unit) * unit;
};

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');

/** What there is, which is never rounded up. */
function roundDown(value: number, digits: number): number {
  const scale = 10 ** (digits - 1 - Math.floor(Math.log10(value)));
  return Math.floor(value * scale) / scale;
}

/** What is asked for: to two digits below 100. */
const asked = (value: number): string => (value >= 100 ? number(value) : String(Number(value.toPrecision(2))));

/** @returns the largest sample that leaves the judge room for bursts */
const sampleRate = (judged: number, perSecond: number): string =>
  String(Math.min(1, roundDown(judged / perSecond / HEADROOM, 1)));

/** @returns the tables of docs/scale.md by name, from the counts of `npm run bench -- cost --write` */
export function scaleTables(counts: Counts): Record<'asked' | 'sampled' | 'quotas', string> {
  const demands = demandsOf(counts);
  const of = (name: string): Demand => demands.find((demand) => demand.name === name) as Demand;
  const [judged, traced] = [of('judge tokens').captures, of('MLflow requests').captures];
  const quotasFor = (perSecond: number): number[] => {
    const needed = (name: string): number => perSecond * HEADROOM * Math.max(...of(name).units);
    const atLeast = (fresh: number, need: number): number => Math.max(fresh, roundUp(need));
    const functions = atLeast(lambdaConcurrency, needed('seconds of functions') + SPARED_FUNCTIONS);
    return [
      perSecond,
      functions,
      functions - SPARED_FUNCTIONS,
      atLeast(mlflow.perSecond, needed('MLflow requests')),
      roundUp(needed('judge calls') * JUDGE_SECONDS),
      atLeast(judgeRequestsPerMinute, 60 * needed('judge calls')),
      atLeast(judgeTokensPerMinute, 60 * needed('judge tokens')),
      atLeast(TABLE_WRITES, needed('DynamoDB’s write units')),
    ];
  };
  const files = counts.counted.map(({ captures }) => `in a file of ${captures}`);
  return {
    asked: table(
      ['', ...files, 'a new account has', 'captures a second', 'source'],
      demands.map(({ name, units, said, captures, source }) => [
        ...[name, ...units.map(asked), said],
        roundDown(captures, 2).toLocaleString('en-US'),
        source,
      ]),
    ),
    sampled: table(
      ['captures a second', 'EVALUATION_SAMPLE_RATE'],
      [0.5, ...RATES].map((perSecond) => [
        String(perSecond),
        perSecond > traced ? 'none: MLflow takes too few requests' : sampleRate(judged, perSecond),
      ]),
    ),
    quotas: table(
      [
        ...['captures a second', 'Lambda’s concurrency', 'MAX_FUNCTIONS', 'MLflow requests a second'],
        ...[
          'judge calls at the same time',
          'judge calls a minute',
          'judge tokens a minute',
          'a table’s writes a second',
        ],
      ],
      RATES.map((perSecond) => quotasFor(perSecond).map(number)),
    ),
  };
}

/** @returns the page with the tables in place of those below `<!-- table: NAME -->` */
export const withTables = (page: string, tables: Readonly<Record<string, string>>): string =>
  page.replace(/(<!-- table: (\w+) -->\n)(?:\|.*\n)*/g, (_, mark: string, name: string) => `${mark}${tables[name]}\n`);
