/** `inference-monitor replay`: sends captured requests to another endpoint and measures the replies. */
import { type Command, InvalidArgumentError } from 'commander';
import { parseInferenceTime } from '../../src/captures/record/inference-time.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { DEFAULT_OPTIONS as D, DEFAULT_JUDGE_BUDGET_USD, type ReplayOptions } from '../../src/replay/options.ts';
import { amount, collected, command, type FlagsOf, number, option, options } from '../cli/options.ts';
import { jsonOption } from '../cli/output.ts';
import { performReplay } from './perform-replay.ts';

const HELP = `
docs/replay.md describes the options. The exit code is 1 if more requests fail than --max-error-rate allows, 2 if the replay could not
run, or if the judge or MLflow failed after it, and 130 after Ctrl-C.

Examples:
  inference-monitor replay captures/ --url http://localhost:8000 --dry-run
  inference-monitor replay captures/ --url http://localhost:8000 \\
    --fixed-schedule-auto-offset --compare
  inference-monitor replay s3://bucket/my-endpoint --endpoint my-endpoint-v2 \\
    --from 2026-11-20T09:00:00Z --to 2026-11-20T10:00:00Z --speedup 2
  inference-monitor replay captures.jsonl --url http://localhost:8000 \\
    --concurrency 16 --model my-model --stream`;

export const replayCommand = (): Command =>
  command('replay', [...OPTIONS, ...TARGET], HELP)
    .argument('[captures]', 'a capture file, a directory, or s3://bucket/prefix')
    .action(async (source: string | undefined, flags: ReplayFlags) => {
      checkCombinations(flags);
      await performReplay(sourceOf(source, flags.inputFile), flags, optionsOf(flags));
    });

/** @throws PermanentError `InvalidReplayOptions` unless exactly one is given */
function sourceOf(argument: string | undefined, inputFile: string | undefined): string {
  const source = argument ?? inputFile;
  if (source !== undefined && (argument === undefined || inputFile === undefined)) return source;
  const facts = { got: source === undefined ? 'neither' : 'both', expected: 'the argument, or --input-file' };
  throw new PermanentError('InvalidReplayOptions', 'A replay needs the captures once', facts);
}

/** Options that have no effect without another one: using them alone is a mistake that would otherwise go unnoticed. */
const NEEDED = [
  ['experiment', '--experiment', 'mlflow'],
  ['trackingUri', '--tracking-uri', 'mlflow'],
  ['judgeModel', '--judge-model', 'judge'],
] as const;

/** @throws PermanentError `InvalidReplayOptions` */
function checkCombinations(flags: ReplayFlags): void {
  for (const [flag, got, needed] of NEEDED) {
    if (flags[flag] === undefined || flags[needed]) continue;
    const facts = { got, expected: `${got} with --${needed}` };
    throw new PermanentError('InvalidReplayOptions', `${got} has no effect without --${needed}`, facts);
  }
  const { from, to, fixedSchedule, concurrency, requestRate } = flags;
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

/** Some names differ between AIPerf's command line and a replay. */
function optionsOf(flags: ReplayFlags): ReplayOptions {
  const { fixedScheduleStartOffset: startOffsetMs, fixedScheduleEndOffset: endOffsetMs } = flags;
  const { fixedScheduleAutoOffset: autoOffset = false, stream = false } = flags;
  const { requestCancellationRate: cancellationRate, requestCancellationDelay: cancellationDelay } = flags;
  const { speedup, spreadSameSecond, concurrency, requestRate, arrivalPattern, maxConcurrency, warmup, timeout } =
    flags;
  const { repeat, requestCount, randomSeed, model, set, goodput, maxErrorRate } = flags;
  return {
    ...{ startOffsetMs, endOffsetMs, autoOffset, speedup, spreadSameSecond, concurrency, requestRate, arrivalPattern },
    ...{ maxConcurrency, warmup, timeout, cancellationRate, cancellationDelay, repeat, requestCount, randomSeed },
    ...{ model, set, stream, goodput, maxErrorRate },
  };
}

// --------------------------------------------------------------------------------------------------------- options
// In the order of the help.

/** Parses a time like the captured ones: in UTC unless it has an offset. */
function instant(text: string): number {
  const value = parseInferenceTime(text);
  if (/^\d{4}-/.test(text) && value !== undefined) return value;
  throw new InvalidArgumentError('expected a time such as 2026-11-20T09:00:00Z');
}

/** Accepts `5` and `5%`. */
const percent = (text: string): number => number(text.replace(/%$/, ''));

/** The name becomes a directory and a part of SageMaker's custom attributes. */
function runName(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: detects control characters
  if (/^[^/\\;\x00-\x1f\x7f]{1,128}$/.test(text) && !/^\.+$/.test(text)) return text;
  throw new InvalidArgumentError('expected 1 to 128 characters, without /, \\, ; and control characters');
}

const numeric = { parse: number };
const PATTERNS = ['poisson', 'constant'] as const;
const SPREADS = ['none', 'even', 'poisson'] as const;

/** What the requests are sent to. */
const TARGET = options(
  option('--url <url>', 'target server; without a path, each request is sent to the path of its format'),
  option('--endpoint-type <type>', 'send all requests to the path of chats, unless the URL has one', {
    choices: ['chat'],
  }),
  option('--endpoint <name>', 'target SageMaker endpoint'),
  option('--variant <name>', 'production variant of the endpoint'),
  option('--inference-component <name>', 'inference component of the endpoint'),
  option('--region <region>', 'region of the endpoint (default: AWS_REGION)'),
  option('--header <"Name: value">', 'add a header to every request to a URL; repeatable', {
    parse: collected,
    initial: [],
  }),
  option('--headers-file <file>', 'read headers from a file with lines of "Name: value", or a JSON object'),
  option('--headers-secret <id>', 'read headers from Secrets Manager, in the same format'),
);
export type TargetFlags = FlagsOf<typeof TARGET>;

const OPTIONS = options(
  option('--input-file <source>', 'the captures, in place of the argument, as AIPerf names them'),
  option('--custom-dataset-type <type>', 'AIPerf’s name for captures, the only kind of input', {
    choices: ['sagemaker_data_capture'],
  }),
  option('--from <time>', 'replay captures from this time on, such as 2026-11-20T09:00:00Z', { parse: instant }),
  option('--to <time>', 'replay captures before this time', { parse: instant }),
  option('--stack <prefix>', 'the stack that knows which captures are of replays (default: STACK_PREFIX)'),
  option('--model <name>', 'set "model" in JSON bodies'),
  option('--set <key=value>', 'set a value in JSON bodies; use dots for inner keys; repeatable', {
    parse: collected,
    initial: [],
  }),
  option('--stream', 'request streamed replies'),
  option('--fixed-schedule', 'send by the captured times (the default)'),
  option('--fixed-schedule-auto-offset', 'send the first request immediately'),
  option('--fixed-schedule-start-offset <ms>', 'start this long after the first record', numeric),
  option('--fixed-schedule-end-offset <ms>', 'end this long after the first record, inclusive', numeric),
  option('--speedup <factor>', '2 replays one hour in half an hour', { parse: number, initial: D.speedup }),
  option('--spread-same-second <how>', 'how to spread the requests of one second: captured times have whole seconds', {
    choices: SPREADS,
    initial: D.spreadSameSecond,
  }),
  option('--concurrency <n>', 'ignore the captured times and keep this many requests in flight', numeric),
  option('--request-rate <r>', 'ignore the captured times and send this many requests per second', numeric),
  option('--arrival-pattern <pattern>', 'distribution of the requests with --request-rate', {
    choices: PATTERNS,
    initial: D.arrivalPattern,
  }),
  option('--max-concurrency <n>', 'limit the requests in flight', numeric),
  option('--warmup <n>', 'send this many requests first, without counting them', { parse: number, initial: D.warmup }),
  option('--timeout <s>', 'time limit for a complete reply', { parse: number, initial: D.timeout }),
  option('--request-cancellation-rate <percent>', 'cancel this percentage of the requests', {
    parse: percent,
    initial: D.cancellationRate,
  }),
  option('--request-cancellation-delay <s>', 'cancel them after this time', {
    parse: number,
    initial: D.cancellationDelay,
  }),
  option('--repeat <n>', 'number of passes over the captures', { parse: number, initial: D.repeat }),
  option('--request-count <n>', 'stop after this many requests', numeric),
  option('--random-seed <n>', 'seed for all random choices', { parse: number, initial: D.randomSeed }),
  option('-o, --out <directory>', 'directory of the results (default: replays/<run>)'),
  option('--run <name>', 'name of the run', { parse: runName }),
  option('--goodput <objectives>', 'objectives, such as "request_latency:2000 time_to_first_token:300"'),
  option('--no-inputs', 'do not write inputs.json'),
  option('--no-report', 'do not write the HTML report'),
  option('--max-error-rate <percent>', 'fail if a larger percentage of the requests fails', {
    parse: percent,
    initial: D.maxErrorRate,
  }),
  option('--compare', 'compare each reply with the captured one, and keep the replies for later comparisons'),
  option('--judge', 'compare, and ask the judge which reply is better, in both orders'),
  option('--judge-model <id>', 'the judge to ask (default: BEDROCK_MODEL_ID)'),
  option('--budget <dollars>', `the most to spend on the judge; 0: no limit (default: ${DEFAULT_JUDGE_BUDGET_USD})`, {
    parse: amount,
  }),
  option('--mlflow', 'log an MLflow run with metrics and files, and a trace for each request'),
  option('--tracking-uri <uri>', 'MLflow (default: MLFLOW_TRACKING_URI)'),
  option('--experiment <name>', 'MLflow experiment (default: that of the captures, with the suffix -replays)'),
  option('--dry-run', 'print what would be sent, and when, without sending it'),
  jsonOption(),
  option('--quiet', 'do not display the progress'),
  option('-y, --yes', 'start a schedule of more than an hour without asking'),
);
export type ReplayFlags = FlagsOf<typeof OPTIONS> & TargetFlags;
