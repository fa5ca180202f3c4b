/** `inference-monitor replay`: sends captured requests to another endpoint and measures the replies. */
import { Command, InvalidArgumentError, Option } from 'commander';
import { parseInferenceTime } from '../../src/captures/record/inference-time.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { DEFAULT_JUDGE_BUDGET_USD, DEFAULT_OPTIONS, type ReplayOptions } from '../../src/replay/options.ts';
import { jsonOption } from '../cli/output.ts';
import { amount, number } from './numbers.ts';
import { performReplay, type ReplayFlags } from './perform-replay.ts';

/** Options whose names differ between AIPerf's command line and a replay. */
type RenamedOption = 'startOffsetMs' | 'endOffsetMs' | 'autoOffset' | 'cancellationRate' | 'cancellationDelay';

interface ParsedOptions extends Omit<ReplayFlags, 'options' | 'window'>, Omit<ReplayOptions, RenamedOption | 'set'> {
  from?: number;
  to?: number;
  inputFile?: string;
  fixedSchedule?: boolean;
  fixedScheduleAutoOffset?: boolean;
  fixedScheduleStartOffset?: number;
  fixedScheduleEndOffset?: number;
  requestCancellationRate: number;
  requestCancellationDelay: number;
  set: string[];
}

/** Parses a time like the captured ones: in UTC unless it has an offset. */
const instant = (text: string): number => {
  const value = parseInferenceTime(text);
  if (!/^\d{4}-/.test(text) || value === undefined) {
    throw new InvalidArgumentError('expected a time such as 2026-11-20T09:00:00Z');
  }
  return value;
};

/** Accepts `5` and `5%`. */
const percent = (text: string): number => number(text.replace(/%$/, ''));

/** The name becomes a directory and a part of SageMaker's custom attributes. */
const runName = (text: string): string => {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: detects control characters
  if (!/^[^/\\;\x00-\x1f\x7f]{1,128}$/.test(text) || /^\.+$/.test(text))
    throw new InvalidArgumentError('expected 1 to 128 characters, without /, \\, ; and control characters');
  return text;
};

const list = (value: string, before: string[]): string[] => [...before, value];

const numeric = (flags: string, description: string): Option => new Option(flags, description).argParser(number);

const CAPTURES = [
  new Option('--input-file <source>', 'the captures, in place of the argument, as AIPerf names them'),
  new Option('--custom-dataset-type <type>', 'AIPerf’s name for captures, the only kind of input').choices([
    'sagemaker_data_capture',
  ]),
  new Option('--from <time>', 'replay captures from this time on, such as 2026-11-20T09:00:00Z').argParser(instant),
  new Option('--to <time>', 'replay captures before this time').argParser(instant),
  new Option('--stack <prefix>', 'the stack that knows which captures are of replays (default: STACK_PREFIX)'),
];

const TARGET = [
  new Option(
    '--url <url>',
    'target server; all requests are sent to the path of the URL, or without one to the path of their format; http if it has no scheme',
  ),
  new Option('--endpoint-type <type>', 'send all requests to the path of chats, unless the URL has one').choices([
    'chat',
  ]),
  new Option('--endpoint <name>', 'target SageMaker endpoint'),
  new Option('--variant <name>', 'production variant of the endpoint'),
  new Option('--inference-component <name>', 'inference component of the endpoint'),
  new Option('--region <region>', 'region of the endpoint (default: AWS_REGION)'),
  new Option('--header <"Name: value">', 'add a header to every request to a URL; repeatable')
    .argParser(list)
    .default([]),
  new Option('--headers-file <file>', 'read headers from a file with lines of "Name: value", or a JSON object'),
  new Option('--headers-secret <id>', 'read headers from Secrets Manager, in the same format'),
];

const REQUEST = [
  new Option('--model <name>', 'set "model" in JSON bodies'),
  new Option('--set <key=value>', 'set a value in JSON bodies; use dots for inner keys; repeatable')
    .argParser(list)
    .default([]),
  new Option('--stream', 'request streamed replies'),
];

const D = DEFAULT_OPTIONS;
const TIMING = [
  new Option('--fixed-schedule', 'send by the captured times (the default)'),
  new Option('--fixed-schedule-auto-offset', 'send the first request immediately'),
  numeric('--fixed-schedule-start-offset <ms>', 'start this long after the first record'),
  numeric('--fixed-schedule-end-offset <ms>', 'end this long after the first record, inclusive'),
  numeric('--speedup <factor>', '2 replays one hour in half an hour').default(D.speedup),
  new Option(
    '--spread-same-second <how>',
    'distribution of the requests of one second: captured times have whole seconds',
  )
    .choices(['none', 'even', 'poisson'])
    .default(D.spreadSameSecond),
  numeric('--concurrency <n>', 'ignore the captured times and keep this many requests in flight'),
  numeric('--request-rate <r>', 'ignore the captured times and send this many requests per second'),
  new Option('--arrival-pattern <pattern>', 'distribution of the requests with --request-rate')
    .choices(['poisson', 'constant'])
    .default(D.arrivalPattern),
  numeric('--max-concurrency <n>', 'limit the requests in flight'),
  numeric('--warmup <n>', 'send this many requests first, without counting them').default(D.warmup),
  numeric('--timeout <s>', 'time limit for a complete reply').default(D.timeout),
  new Option('--request-cancellation-rate <percent>', 'cancel this percentage of the requests')
    .argParser(percent)
    .default(D.cancellationRate),
  numeric('--request-cancellation-delay <s>', 'cancel them after this time').default(D.cancellationDelay),
  numeric('--repeat <n>', 'number of passes over the captures').default(D.repeat),
  numeric('--request-count <n>', 'stop after this many requests'),
  numeric('--random-seed <n>', 'seed for all random choices').default(D.randomSeed),
];

const RESULTS = [
  new Option('-o, --output <directory>', 'directory of the results (default: replays/<run>)'),
  new Option('--run <name>', 'name of the run').argParser(runName),
  new Option('--goodput <objectives>', 'objectives, such as "request_latency:2000 time_to_first_token:300"'),
  new Option('--no-inputs', 'do not write inputs.json'),
  new Option('--no-report', 'do not write the HTML report'),
  new Option('--max-error-rate <percent>', 'fail if a larger percentage of the requests fails')
    .argParser(percent)
    .default(D.maxErrorRate),
  new Option('--compare', 'compare each reply with the captured one, and keep the replies for later comparisons'),
  new Option('--judge', 'compare, and ask the judge which reply is better, in both orders'),
  new Option('--judge-model <id>', 'model of the judge (default: BEDROCK_MODEL_ID)'),
  new Option(
    '--judge-budget-usd <amount>',
    `limit of the judge’s cost; 0: no limit (default: ${DEFAULT_JUDGE_BUDGET_USD})`,
  ).argParser(amount),
  new Option('--mlflow', 'log an MLflow run with metrics and files, and a trace for each request'),
  new Option('--tracking-uri <uri>', 'MLflow tracking URI (default: MLFLOW_TRACKING_URI)'),
  new Option('--experiment <name>', 'MLflow experiment (default: that of the captures, with the suffix -replays)'),
  new Option('--dry-run', 'print what would be sent, and when, without sending it'),
  jsonOption(),
  new Option('--quiet', 'do not display the progress'),
  new Option('-y, --yes', 'start a schedule of more than an hour without asking'),
];

/** All options, in the order of the help. */
const REPLAY_OPTIONS = [...CAPTURES, ...TARGET, ...REQUEST, ...TIMING, ...RESULTS];

const EXAMPLES = `
Examples:
  inference-monitor replay captures/ --url http://localhost:8000/v1/chat/completions --fixed-schedule-auto-offset
  inference-monitor replay s3://bucket/my-endpoint --from 2026-11-20T09:00:00Z --to 2026-11-20T10:00:00Z \\
      --endpoint my-endpoint-v2 --region eu-west-1 --speedup 2 --spread-same-second poisson
  inference-monitor replay captures.jsonl --url http://localhost:8000 --concurrency 16 --model my-model --stream
  inference-monitor replay captures.jsonl --dry-run
  inference-monitor replay --model my-model --endpoint-type chat --url localhost:8000 --input-file captured_data/ \\
      --custom-dataset-type sagemaker_data_capture --fixed-schedule --fixed-schedule-auto-offset

The exit code is 1 if more requests fail than --max-error-rate allows, 2 if the replay could not run, or if the judge or
MLflow failed after it, and 130 after Ctrl-C.`;

export function replayCommand(): Command {
  const command = new Command('replay').argument('[captures]', 'a capture file, a directory, or s3://bucket/prefix');
  for (const option of REPLAY_OPTIONS) command.addOption(option);
  return command.addHelpText('after', EXAMPLES).action(async (source: string | undefined, parsed: ParsedOptions) => {
    await performReplay(sourceOf(source, parsed.inputFile), flagsOf(parsed));
  });
}

/** @throws PermanentError `InvalidReplayOptions` unless exactly one is given */
function sourceOf(argument: string | undefined, inputFile: string | undefined): string {
  const source = argument ?? inputFile;
  if (source !== undefined && (argument === undefined || inputFile === undefined)) return source;
  const facts = { got: source === undefined ? 'neither' : 'both', expected: 'the argument, or --input-file' };
  throw new PermanentError('InvalidReplayOptions', 'A replay needs the captures once', facts);
}

/** Options that have no effect without another one: using them alone is a mistake that would otherwise go unnoticed. */
const NEEDED: readonly [keyof ParsedOptions, string, keyof ParsedOptions, string][] = [
  ['experiment', '--experiment', 'mlflow', '--mlflow'],
  ['trackingUri', '--tracking-uri', 'mlflow', '--mlflow'],
  ['judgeModel', '--judge-model', 'judge', '--judge'],
];

function flagsOf(parsed: ParsedOptions): ReplayFlags {
  checkCombinations(parsed);
  const { from, to } = parsed;
  return { ...parsed, options: optionsOf(parsed), window: { fromMs: from, toMs: to } };
}

/** @throws PermanentError `InvalidReplayOptions` */
function checkCombinations(parsed: ParsedOptions): void {
  for (const [option, got, needed, expected] of NEEDED) {
    if (parsed[option] !== undefined && !parsed[needed]) {
      const facts = { got, expected: `${got} with ${expected}` };
      throw new PermanentError('InvalidReplayOptions', `${got} has no effect without ${expected}`, facts);
    }
  }
  const { from, to, fixedSchedule, concurrency, requestRate } = parsed;
  if (fixedSchedule && (concurrency !== undefined || requestRate !== undefined)) {
    const expected = 'one kind of timing; --max-concurrency limits the requests in flight of a schedule';
    const message = 'A schedule cannot be combined with --concurrency or --request-rate';
    throw new PermanentError('InvalidReplayOptions', message, { got: 'both', expected });
  }
  if (from !== undefined && to !== undefined && from >= to) {
    const facts = { got: [from, to].map((ms) => new Date(ms).toISOString()).join(' to ') };
    throw new PermanentError('InvalidReplayOptions', '--from must be before --to, which is exclusive', facts);
  }
}

const optionsOf = (parsed: ParsedOptions): ReplayOptions => ({
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
  maxErrorRate: parsed.maxErrorRate,
});
