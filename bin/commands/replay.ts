/** `inference-monitor replay`: sends captured requests to another endpoint and measures what comes back. */
import { Command, InvalidArgumentError, Option } from 'commander';
import { parseInferenceTime } from '../../src/formats/record/inference-time.ts';
import { DEFAULT_JUDGE_BUDGET_USD, DEFAULT_OPTIONS, type ReplayOptions } from '../../src/replay/options.ts';
import { PermanentError } from '../../src/shared/errors.ts';
import { amount, number } from './numbers.ts';
import { performReplay, type ReplayFlags } from './perform-replay.ts';

const instant = (text: string): number => {
  // As the captured times are read: UTC where there is no offset, not this machine's own time.
  const value = parseInferenceTime(text);
  if (!/^\d{4}-/.test(text) || value === undefined) {
    throw new InvalidArgumentError('a time such as 2026-11-20T09:00:00Z is needed');
  }
  return value;
};

/** `5` and `5%` are the same. */
const percent = (text: string): number => number(text.replace(/%$/, ''));

/** It becomes a directory, and a part of SageMaker's custom attributes. */
const runName = (text: string): string => {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  if (!/^[^/\\;\x00-\x1f\x7f]{1,128}$/.test(text) || /^\.+$/.test(text))
    throw new InvalidArgumentError('1 to 128 characters are needed, without /, \\, ; and control characters');
  return text;
};

const list = (value: string, before: string[]): string[] => [...before, value];

const EXAMPLES = `
Examples:
  inference-monitor replay captures/ --url http://localhost:8000/v1/chat/completions --fixed-schedule-auto-offset
  inference-monitor replay s3://bucket/my-endpoint --from 2026-11-20T09:00:00Z --to 2026-11-20T10:00:00Z \\
      --endpoint my-endpoint-v2 --region eu-west-1 --speedup 2 --spread-same-second poisson
  inference-monitor replay captures.jsonl --url http://localhost:8000 --concurrency 16 --model my-model --stream
  inference-monitor replay captures.jsonl --dry-run

The exit code is 1 when more requests fail than --max-error-rate allows, 2 when the replay could not run, or the judge or
MLflow failed after it, 130 after Ctrl-C.`;

interface Parsed {
  from?: number;
  to?: number;
  fixedSchedule?: boolean;
  fixedScheduleAutoOffset?: boolean;
  fixedScheduleStartOffset?: number;
  fixedScheduleEndOffset?: number;
  speedup: number;
  spreadSameSecond: ReplayOptions['spreadSameSecond'];
  concurrency?: number;
  requestRate?: number;
  arrivalPattern: ReplayOptions['arrivalPattern'];
  maxConcurrency?: number;
  warmup: number;
  timeout: number;
  requestCancellationRate: number;
  requestCancellationDelay: number;
  repeat: number;
  requestCount?: number;
  randomSeed: number;
  model?: string;
  set: string[];
  stream?: boolean;
  goodput?: string;
  sliceDuration?: number;
  maxErrorRate: number;
  url?: string;
  endpoint?: string;
  variant?: string;
  inferenceComponent?: string;
  region?: string;
  header: string[];
  headersFile?: string;
  headersSecret?: string;
  run?: string;
  output?: string;
  dryRun?: boolean;
  json?: boolean;
  raw?: boolean;
  inputs: boolean;
  report: boolean;
  quiet?: boolean;
  compare?: boolean;
  judge?: boolean;
  judgeModel?: string;
  judgeBudgetUsd: number;
  mlflow?: boolean;
  trackingUri?: string;
  experiment?: string;
}

export function replayCommand(): Command {
  const d = DEFAULT_OPTIONS;
  const command = new Command('replay')
    .description('send captured requests to another endpoint, with their own timing, and measure what comes back')
    .argument('<captures>', 'a capture file, a directory, or s3://bucket/prefix');
  const target = [
    new Option(
      '--url <url>',
      'target: a server; with a path all requests go there, without one each to that of its kind',
    ),
    new Option('--endpoint <name>', 'target: a SageMaker endpoint'),
    new Option('--variant <name>', 'production variant of the endpoint'),
    new Option('--inference-component <name>', 'inference component of the endpoint'),
    new Option('--region <region>', 'region of the endpoint (default: AWS_REGION)'),
    new Option('--header <"Name: value">', 'header of every request to a URL; repeatable').argParser(list).default([]),
    new Option('--headers-file <file>', 'headers as lines of "Name: value", or as a JSON object'),
    new Option('--headers-secret <id>', 'the same from Secrets Manager'),
  ];
  const request = [
    new Option('--model <name>', 'set "model" in JSON bodies'),
    new Option('--set <key=value>', 'set a value in JSON bodies; inner keys with dots; repeatable')
      .argParser(list)
      .default([]),
    new Option('--stream', 'ask for streamed replies'),
  ];
  const captures = [
    new Option('--from <time>', 'captured at or after, e.g. 2026-11-20T09:00:00Z').argParser(instant),
    new Option('--to <time>', 'captured before').argParser(instant),
  ];
  const timing = [
    new Option('--fixed-schedule', 'send by the captured times (the default)'),
    new Option('--fixed-schedule-auto-offset', 'send the first request at once'),
    new Option('--fixed-schedule-start-offset <ms>', 'begin so long after the first record').argParser(number),
    new Option('--fixed-schedule-end-offset <ms>', 'end so long after the first record, inclusive').argParser(number),
    new Option('--speedup <factor>', '2 replays an hour in half an hour').argParser(number).default(d.speedup),
    new Option(
      '--spread-same-second <how>',
      'captured times have whole seconds: send those of one second together, or spread',
    )
      .choices(['none', 'even', 'poisson'])
      .default(d.spreadSameSecond),
    new Option('--concurrency <n>', 'no schedule: so many requests under way').argParser(number),
    new Option('--request-rate <r>', 'no schedule: so many requests a second').argParser(number),
    new Option('--arrival-pattern <pattern>', 'of --request-rate')
      .choices(['poisson', 'constant'])
      .default(d.arrivalPattern),
    new Option('--max-concurrency <n>', 'requests under way at most').argParser(number),
    new Option('--warmup <n>', 'requests sent before, and not counted').argParser(number).default(d.warmup),
    new Option('--timeout <s>', 'for a complete reply').argParser(number).default(d.timeout),
    new Option('--request-cancellation-rate <percent>', 'requests given up')
      .argParser(percent)
      .default(d.cancellationRate),
    new Option('--request-cancellation-delay <s>', 'after which they are')
      .argParser(number)
      .default(d.cancellationDelay),
    new Option('--repeat <n>', 'go through the captures so often').argParser(number).default(d.repeat),
    new Option('--request-count <n>', 'requests at most').argParser(number),
    new Option('--random-seed <n>', 'of whatever is random').argParser(number).default(d.randomSeed),
  ];
  const results = [
    new Option('-o, --output <directory>', 'where the results go (default: replays/<run>)'),
    new Option('--run <name>', 'name of the run').argParser(runName),
    new Option('--goodput <objectives>', 'e.g. "request_latency:2000 time_to_first_token:300"'),
    new Option('--slice-duration <s>', 'length of the time slices (default: by the length of the run)').argParser(
      number,
    ),
    new Option('--raw', 'keep requests and replies in profile_export_raw.jsonl'),
    new Option('--no-inputs', 'leave inputs.json out'),
    new Option('--no-report', 'leave the HTML report out'),
    new Option('--max-error-rate <percent>', 'failed requests that are still a success')
      .argParser(percent)
      .default(d.maxErrorRate),
    new Option('--compare', 'compare each reply with the captured one, and keep the replies for later comparisons'),
    new Option('--judge', 'with --compare: ask the judge which reply is better, both orders of each pair'),
    new Option('--judge-model <id>', 'the judge that is asked (default: BEDROCK_MODEL_ID)'),
    new Option('--judge-budget-usd <amount>', 'most that may be spent on the judge, 0: no limit')
      .argParser(amount)
      .default(DEFAULT_JUDGE_BUDGET_USD),
    new Option('--mlflow', 'log a run with figures and files, and a trace for each request'),
    new Option('--tracking-uri <uri>', 'MLflow (default: MLFLOW_TRACKING_URI)'),
    new Option('--experiment <name>', 'MLflow experiment (default: that of the captures, with -replays)'),
    new Option('--dry-run', 'say what would be sent, and when'),
    new Option('--json', 'with --dry-run: as JSON'),
    new Option('--quiet', 'no progress display'),
  ];
  for (const option of [...captures, ...target, ...request, ...timing, ...results]) command.addOption(option);
  return command.addHelpText('after', EXAMPLES).action(async (source: string, parsed: Parsed) => {
    await performReplay(source, flagsOf(parsed));
  });
}

/** Options that say nothing without another one: each alone is a mistake, and would be missed. */
const NEEDED: readonly [keyof Parsed, string, keyof Parsed, string][] = [
  ['experiment', '--experiment', 'mlflow', '--mlflow'],
  ['trackingUri', '--tracking-uri', 'mlflow', '--mlflow'],
  ['judgeModel', '--judge-model', 'judge', '--judge'],
  ['json', '--json', 'dryRun', '--dry-run'],
];

function flagsOf(parsed: Parsed): ReplayFlags {
  for (const [option, got, needed, expected] of NEEDED) {
    if (parsed[option] !== undefined && !parsed[needed]) {
      const facts = { got, expected: `${got} with ${expected}` };
      throw new PermanentError('InvalidReplayOptions', `${got} says nothing without ${expected}`, facts);
    }
  }
  if (parsed.fixedSchedule && (parsed.concurrency !== undefined || parsed.requestRate !== undefined)) {
    throw new PermanentError(
      'InvalidReplayOptions',
      'A schedule and --concurrency or --request-rate exclude each other',
      {
        got: 'both',
        expected: 'one way of timing; --max-concurrency caps what a schedule has under way',
      },
    );
  }
  const options: ReplayOptions = {
    startOffsetMs: parsed.fixedScheduleStartOffset,
    endOffsetMs: parsed.fixedScheduleEndOffset,
    autoOffset: parsed.fixedScheduleAutoOffset ?? false,
    speedup: parsed.speedup,
    spreadSameSecond: parsed.spreadSameSecond,
    concurrency: parsed.concurrency,
    requestRate: parsed.requestRate,
    arrivalPattern: parsed.arrivalPattern,
    maxConcurrency: parsed.maxConcurrency,
    warmup: parsed.warmup,
    timeout: parsed.timeout,
    cancellationRate: parsed.requestCancellationRate,
    cancellationDelay: parsed.requestCancellationDelay,
    repeat: parsed.repeat,
    requestCount: parsed.requestCount,
    randomSeed: parsed.randomSeed,
    model: parsed.model,
    set: parsed.set,
    stream: parsed.stream ?? false,
    goodput: parsed.goodput,
    sliceDuration: parsed.sliceDuration,
    maxErrorRate: parsed.maxErrorRate,
  };
  const { from, to } = parsed;
  if (from !== undefined && to !== undefined && from >= to) {
    const facts = { got: [from, to].map((ms) => new Date(ms).toISOString()).join(' to ') };
    throw new PermanentError('InvalidReplayOptions', '--from must be before --to, which is not included', facts);
  }
  return {
    ...parsed,
    options,
    window: { fromMs: from, toMs: to },
    dryRun: parsed.dryRun ?? false,
    json: parsed.json ?? false,
    raw: parsed.raw ?? false,
    quiet: parsed.quiet ?? false,
    compare: parsed.compare ?? false,
    judge: parsed.judge ?? false,
    mlflow: parsed.mlflow ?? false,
  };
}
