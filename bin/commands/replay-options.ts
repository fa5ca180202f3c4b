/** The options of `replay`, in the order of its help. */
import { InvalidArgumentError, Option } from 'commander';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { DEFAULT_OPTIONS as D } from '../../src/replay/options.ts';
import {
  argument,
  collected,
  type FlagsOf,
  judgingOptions,
  numbers,
  oneOf,
  option,
  options,
  parsed,
} from '../cli/options.ts';
import { jsonOption } from '../cli/output.ts';
import { windowOptions } from '../cli/window.ts';
import aiperfFlags from './aiperf-flags.json' with { type: 'json' };

/** Accepts `5` and `5%`. */
const percent = (text: string): number => numbers.any(text.replace(/%$/, ''));

/** The name becomes a directory and a part of SageMaker's custom attributes. */
function runName(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: detects control characters
  if (/^[^/\\;\x00-\x1f\x7f]{1,128}$/.test(text) && !/^\.+$/.test(text)) return text;
  throw new InvalidArgumentError('expected 1 to 128 characters, without /, \\, ; and control characters');
}

function chatOnly(type: string): string {
  if (type === 'chat') return type;
  throw new InvalidArgumentError('expected chat; without it, each request is sent to the path of its format');
}

const SPREADS = ['none', 'even', 'poisson'] as const;

/** Options for the target of the requests. */
const TARGET = options(
  option('--url <url>', 'target server; without a path, each request is sent to the path of its format'),
  option('--endpoint-type <type>', 'chat: send all requests to the path of chats, unless the URL has one', chatOnly),
  option('--endpoint <name>', 'target SageMaker endpoint'),
  option('--variant <name>', 'production variant of the endpoint'),
  option('--inference-component <name>', 'inference component of the endpoint'),
  option('--region <region>', 'region of the endpoint (default: AWS_REGION)'),
  option('--header <"Name: value">', 'add a header to every request to a URL; repeatable', parsed(collected, [])),
  option('--headers-file <file>', 'read headers from a file with lines of "Name: value", or a JSON object'),
  option('--headers-secret <id>', 'read headers from Secrets Manager, in the same format'),
);
export type TargetFlags = FlagsOf<typeof TARGET>;

export const REPLAY_OPTIONS = options(
  argument('[captures]', 'a capture file, a directory, or s3://bucket/prefix'),
  option('--input-file <source>', 'the captures, in place of the argument, as AIPerf names them'),
  option('--custom-dataset-type <type>', 'AIPerf’s name for captures, the only kind of input', {
    choices: ['sagemaker_data_capture'],
  }),
  ...windowOptions(),
  option('--stack <prefix>', 'the stack that knows which captures are of replays (default: STACK_PREFIX)'),
  option('--model <name>', 'set "model" in JSON bodies'),
  option('--set <key=value>', 'set a value in JSON bodies; use dots for inner keys; repeatable', parsed(collected, [])),
  option('--stream', 'request streamed replies'),
  option('--fixed-schedule', 'send by the captured times (the default)'),
  option('--fixed-schedule-auto-offset', 'send the first request immediately'),
  option('--fixed-schedule-start-offset <ms>', 'start this long after the first record', numbers.any),
  option('--fixed-schedule-end-offset <ms>', 'end this long after the first record, inclusive', numbers.any),
  option('--speedup <factor>', '2 replays one hour in half an hour', parsed(numbers.any, D.speedup)),
  option('--spread-same-second <how>', 'how to spread captures of one second', oneOf(SPREADS, D.spreadSameSecond)),
  option('--concurrency <n>', 'ignore the captured times and keep this many requests in flight', numbers.any),
  option('--request-rate <r>', 'ignore the captured times and send this many requests per second', numbers.any),
  option('--max-concurrency <n>', 'limit the requests in flight', numbers.any),
  option('--warmup <n>', 'send this many requests first, without counting them', parsed(numbers.any, D.warmup)),
  option('--timeout <s>', 'time limit for a complete reply', parsed(numbers.any, D.timeout)),
  option('--request-cancellation-rate <percent>', 'percentage to cancel', parsed(percent, D.requestCancellationRate)),
  option(
    '--request-cancellation-delay <s>',
    'cancel them after this time',
    parsed(numbers.any, D.requestCancellationDelay),
  ),
  option('--repeat <n>', 'number of passes over the captures', parsed(numbers.any, D.repeat)),
  option('--request-count <n>', 'stop after this many requests', numbers.any),
  option('--random-seed <n>', 'seed for all random choices', parsed(numbers.any, D.randomSeed)),
  option('-o, --out <directory>', 'directory of the results (default: replays/<run>)'),
  option('--run <name>', 'name of the run', runName),
  option('--goodput <objectives>', 'objectives, such as "request_latency:2000 time_to_first_token:300"'),
  option('--no-inputs', 'do not write inputs.json'),
  option('--no-report', 'do not write the HTML report'),
  option('--max-error-rate <percent>', 'fail if more requests fail', parsed(percent, D.maxErrorRate)),
  option('--compare', 'compare each reply with the captured one, and keep the replies for later comparisons'),
  ...judgingOptions('compare, and '),
  option('--mlflow', 'log an MLflow run with metrics and files, and a trace for each request'),
  option('--tracking-uri <uri>', 'MLflow (default: MLFLOW_TRACKING_URI)'),
  option('--experiment <name>', 'MLflow experiment (default: that of the captures, with the suffix -replays)'),
  option('--dry-run', 'print what would be sent, and when, without sending it'),
  jsonOption(),
  option('--quiet', 'do not display the progress'),
  option('-y, --yes', 'start a schedule of more than an hour without asking'),
  ...TARGET,
);
export type ReplayFlags = FlagsOf<typeof REPLAY_OPTIONS>;

/** Options of AIPerf that replay lacks. Each is refused with a suggestion for its replacement. */
export const AIPERF_OPTIONS = Object.entries(aiperfFlags).flatMap(([use, flags]) =>
  flags.map((flag) =>
    new Option(`${flag} [value]`)
      .hideHelp()
      .preset('')
      .argParser(() => {
        throw new PermanentError('InvalidCommandLine', `AIPerf's ${flag} is no option of replay: ${use}`);
      }),
  ),
);
