/** `inference-monitor replay`: sends captured requests to another endpoint and measures the replies. */
import { Command } from 'commander';
import { PermanentError } from '../../src/core/errors/errors.ts';
import type { ReplayOptions } from '../../src/replay/options.ts';
import { performReplay, type ReplayFlags } from './perform-replay.ts';
import { type ParsedOptions, REPLAY_OPTIONS } from './replay-options.ts';

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
