/** Writes the simulation's results as docs/scale.md. */
import { round } from '../support/result.ts';
import type { Measured } from './measured.ts';
import { S3_SECONDS } from './measured.ts';
import { JUDGED_CAPTURE } from './product.ts';
import { FRESH, HEADROOM, tokensOf } from './scenarios.ts';
import { BURST, type Outcome, type Scenario } from './simulate.ts';

export interface Row {
  scenario: Scenario;
  outcome: Outcome;
}

/** Whether the account bears what is asked of it: what waits after a burst is done before the next one. */
export const isBorne = ({ outcome }: Row): boolean =>
  outcome.done >= outcome.captures - 1e-6 && outcome.recoverySeconds <= BURST.every - BURST.seconds;

export interface Tables {
  /** New accounts, with all captures judged. */
  fresh: Row[];
  /** New accounts, with the largest sample that they bear. */
  sampled: Row[];
  /** Accounts with the quotas that the load needs. */
  grown: Row[];
  /** Those of them whose table needs to be warmed, if it is not. */
  cold: Row[];
  backfills: { name: string; row: Row; ownSeconds: number; tightest: string }[];
}

/** Seconds in words: `12 s`, `3.4 min`, `8.7 h`, `2.1 days`. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return 'never';
  if (seconds < 120) return `${round(seconds, seconds < 10 ? 1 : 0)} s`;
  if (seconds < 7200) return `${round(seconds / 60, 1)} min`;
  if (seconds < 172_800) return `${round(seconds / 3600, 1)} h`;
  return `${round(seconds / 86_400, 1)} days`;
}

const number = (value: number): string => Math.round(value).toLocaleString('en-US');
const dollars = (value: number): string => `$${value >= 100 ? number(value) : round(value).toFixed(2)}`;

/** What is asked for of each quota, over what there is: above 1 the backlog grows. The largest first. */
export function loads({ scenario: { quotas, load, choices }, outcome }: Row): { name: string; load: number }[] {
  const perSecond = (units: number): number => (units * load.perSecond) / Math.max(1, outcome.captures);
  const judged = load.perSecond * choices.sampleRate;
  const tokens = tokensOf(quotas);
  const all = [
    { name: 'judge tokens', load: (judged * tokens * 60) / quotas.judgeTokensPerMinute },
    { name: 'judge calls', load: (judged * 60) / quotas.judgeCallsPerMinute },
    { name: 'MLflow requests', load: perSecond(outcome.calls.mlflow) / quotas.mlflowPerSecond },
    { name: 'state transitions', load: perSecond(outcome.calls.stateTransition) / quotas.transitionsPerSecond },
    { name: 'functions', load: perSecond((outcome.gbSeconds * 1024) / choices.memoryMb) / quotas.lambda },
    { name: 'StartExecution', load: perSecond(outcome.runs) / quotas.startsPerSecond },
    { name: 'DynamoDB writes', load: perSecond(outcome.calls.dynamodbWriteUnit) / quotas.tableWritesPerSecond },
    { name: 'S3 writes', load: perSecond(outcome.calls.s3Write) / quotas.s3WritesPerSecond },
  ];
  return all.toSorted((a, b) => b.load - a.load);
}

/** Requests to MLflow for a capture, of the loads at which they are what limits. */
const mlflowPerCapture = ({ fresh }: Tables): number => {
  const each = fresh.map(({ scenario, outcome: { calls, captures } }) => {
    const requests = calls.mlflow / Math.max(1, captures);
    return requests * scenario.load.perSecond > scenario.quotas.mlflowPerSecond ? requests : 0;
  });
  return Math.max(...each);
};

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');

const sizeOf = ({ load }: Scenario): string[] => [number(load.perSecond), number(load.capturesPerFile)];

const timesOf = ({ outcome }: Row): string[] => [
  duration(outcome.times.quantile(0.5)),
  duration(outcome.times.quantile(0.99)),
  number(outcome.backlog),
  duration(outcome.recoverySeconds),
];

const costOf = ({ scenario, outcome }: Row): string[] => {
  const days = Math.max(1, scenario.load.seconds) / 86_400;
  return [dollars(outcome.dollars / days), dollars(outcome.judgeDollars / days)];
};

/** Returns the table of times and dollars. */
const outcomes = (rows: readonly Row[]): string =>
  table(
    [
      'captures a second',
      'captures a file',
      'p50',
      'p99',
      'most waiting',
      'recovery from a burst',
      '$ a day',
      '$ a day, judge',
    ],
    rows.map((row) => [...sizeOf(row.scenario), ...timesOf(row), ...costOf(row)]),
  );

export function scalePage(tables: Tables, measured: Measured): string {
  const two = (shares: readonly { name: string; share: number }[]): string =>
    shares
      .slice(0, 2)
      .map(({ name, share }) => `${name} ${round(100 * share, 0)}%`)
      .join(', ');
  const saturation = (row: Row): string => two(loads(row).map(({ name, load }) => ({ name, share: load })));
  const mostUsed = ({ outcome }: Row): string => two(outcome.quotas.toSorted((a, b) => b.share - a.share));
  return `# What each size needs

<!-- Written by \`npm run bench -- scale --write\`. Do not edit. -->

Choose the settings by your captures a second. These tables come from a simulation of events. It has the product's bounds and retries,
the seconds and calls that were measured in the emulator on ${measured.at.slice(0, 10)} (MLflow ${measured.mlflow}, ${measured.machine}), a judge that
answers in 10 s, S3's ${S3_SECONDS * 1000} ms for the first byte, and the quotas of an account. Refused work waits and is repeated, as in the product. Each load lasts ${duration(tables.grown[0]?.scenario.load.seconds ?? 0)}. It is three times its average for ten minutes every two hours.
${measured.note === undefined ? '' : `\n**${measured.note}**\n`}
The judge's tokens are those of the product's own estimate: ${number(JUDGED_CAPTURE.inputTokens)} in and ${number(JUDGED_CAPTURE.outputTokens)} out for each capture, and an output token counts five
times against Bedrock's quota. If the quota of a *day* is the tighter one, it judges one capture for each ${number(tokensOf(FRESH))} tokens of it: choose an
EVALUATION_SAMPLE_RATE of at most the quota / ${number(tokensOf(FRESH))} / the captures a day. Beyond it every capture is still traced, and its verdicts are
[held](runbook.md#verdictsheld) until a retry when the day is over.

## A new account

10 functions at a time, 25 requests a second to MLflow, and 200 calls and 200,000 tokens a minute of the judge. *Asked for* is the
average demand in percent of the quota, for the two tightest. Above 100% the backlog grows until you judge a sample or ask for
more. The sample rate to choose leaves a quota ${HEADROOM} times what is asked for on average, if any does.

${table(
  [
    'captures a second',
    'captures a file',
    'asked for, if all are judged',
    'EVALUATION_SAMPLE_RATE to choose',
    'asked for then',
  ],
  tables.fresh.map((row, n) => {
    const sampled = tables.sampled[n] as Row;
    return [...sizeOf(row.scenario), saturation(row), String(sampled.scenario.choices.sampleRate), saturation(sampled)];
  }),
)}

With that sample rate, from the file to its traces and verdicts:

${outcomes(tables.sampled.filter(isBorne))}

Where MLflow's requests are above 100%, no setting helps: every capture becomes a trace, judged or not, and that is ${round(mlflowPerCapture(tables), 1)} requests.
A managed MLflow that takes ${FRESH.mlflowPerSecond} requests a second takes some ${Math.floor(FRESH.mlflowPerSecond / mlflowPerCapture(tables))} captures a second. With more, have Data Capture sample
(\`InitialSamplingPercentage\`), or use an MLflow of your own.

## An account that judges everything

Quotas to ask for, and the settings that use them:

${table(
  [
    'captures a second',
    'Lambda’s concurrency',
    'MLflow requests a second',
    'judge calls a minute',
    'judge tokens a minute',
    'table’s writes a second',
    'MAX_CONCURRENCY',
    'MAX_FUNCTIONS',
    'JUDGE_CONCURRENCY',
    'most used',
  ],
  tables.grown
    .filter(({ scenario }) => scenario.load.capturesPerFile === tables.grown[0]?.scenario.load.capturesPerFile)
    .map((row) => {
      const { load, quotas, choices } = row.scenario;
      const figures = [
        load.perSecond,
        quotas.lambda,
        quotas.mlflowPerSecond,
        quotas.judgeCallsPerMinute,
        quotas.judgeTokensPerMinute,
        quotas.tableWritesPerSecond,
        choices.maxConcurrency,
        choices.maxFunctions,
        choices.judgeConcurrency,
      ];
      return [...figures.map(number), mostUsed(row)];
    }),
)}

${outcomes(tables.grown)}

\`JUDGE_TOKENS_PER_MINUTE\` and \`MLFLOW_REQUESTS_PER_SECOND\` are the quotas themselves, \`BATCH_WINDOW_SECONDS\` is the default.
The judge's quotas are ${HEADROOM} times the average load, so a burst of three times the average is worked off in the hour after it. Raise
them further for a shorter p99.

A new on-demand table of DynamoDB takes ${number(FRESH.tableWritesPerSecond)} write units a second. Where more stands above, raise its *warm throughput* before the
load comes (AWS calls it pre-warming; it is paid once, and never falls):

\`\`\`sh
aws dynamodb update-table --table-name "$TABLE" --warm-throughput WriteUnitsPerSecond=${Math.max(...tables.grown.map(({ scenario }) => scenario.quotas.tableWritesPerSecond))}
\`\`\`

[TableThrottled](runbook.md#tablethrottled) has the table's name. DynamoDB grows a table by itself too, to twice its earlier peak in half an hour, which the
simulation does not count on. With a new table nothing fails, and bursts take longer:

${outcomes(tables.cold)}

The judge's answers are in a table of their own: an item per question (what the judge reads about a capture), kept for 90 days. A judged
capture costs three of its write units: one claims the question, and two keep nine answers, which are about 1.2 KB compressed. A
million judged captures cost $1.88 in writes and $1 in storage for the 90 days. A new table takes the answers about 1,300 captures a second; what it
refuses is repeated, and then the chunk waits. For more, warm that table in the same way.

Dollars are list prices of us-east-1 without the judge and without span files ($5 for a million captures on managed MLflow);
the judge's are those of Claude Sonnet 4.6 by a geographic profile (\`us.\`, \`eu.\`, \`jp.\`, \`au.\`): 10% above
those of \`global.\`, and batch is half. The default, Sonnet 5.5, counts 30% more tokens and costs 13% less. Not in them: [a run](cost.md#cost-of-a-million-captures) costs $0.0005, also for a lone
file of one capture ($467 for a million of these), a chunk that waits [up to 3 cents a day](runbook.md#chunkswaiting), and
[a VPC's endpoints](network-and-keys.md#a-vpc-of-your-own) $70 to $115 a month.

## A backfill of 300,000 files of one capture

${table(
  ['', 'takes', 'tightest quota', 'its own time', 'ratio'],
  tables.backfills.map(({ name, row, ownSeconds, tightest }) => [
    name,
    duration(row.outcome.endSeconds),
    tightest,
    duration(ownSeconds),
    String(round(row.outcome.endSeconds / ownSeconds)),
  ]),
)}

\`npm run bench -- scale --check\` compares the simulation with the emulator, and \`--measure\` measures again.
`;
}
