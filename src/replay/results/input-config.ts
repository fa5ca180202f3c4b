/** The options of a replay as AIPerf 0.13 names them: `input_config` of the summary, which its models read. */
import type { FinishedReplay } from '../finished.ts';
import { parseGoodput, type ReplayOptions } from '../options.ts';

/** The name of the model if the captured bodies keep their own. */
const CAPTURED_MODEL = 'captured';

/** How AIPerf names the way in which requests are timed. */
function timing(options: ReplayOptions, sent: number): Record<string, unknown> {
  const { requestRate, concurrency, startOffsetMs, endOffsetMs, requestCount } = options;
  if (requestRate !== undefined)
    return {
      type: options.arrivalPattern,
      rate: requestRate,
      concurrency,
      requests: requestCount ?? Math.max(1, sent),
    };
  if (concurrency !== undefined)
    return { type: 'concurrency', concurrency, requests: requestCount ?? Math.max(1, sent) };
  return {
    type: 'fixed_schedule',
    auto_offset: options.autoOffset,
    start_offset: startOffsetMs && Math.round(startOffsetMs),
    end_offset: endOffsetMs && Math.round(endOffsetMs),
    requests: requestCount,
  };
}

export function inputConfigOf({ options, source, target, sent }: FinishedReplay): Record<string, unknown> {
  const { cancellationRate: rate, cancellationDelay: delay, warmup, randomSeed, model = CAPTURED_MODEL } = options;
  const slos = Object.fromEntries(parseGoodput(options.goodput));
  const profiling = { name: 'profiling', kind: 'profiling', ...timing(options, sent) };
  const warming = { name: 'warmup', kind: 'warmup', type: 'concurrency', concurrency: 8, requests: warmup };
  return {
    models: { items: [{ name: model }] },
    endpoint: {
      urls: [target.url ?? `https://sagemaker/${target.endpoint}`],
      type: 'chat',
      timeout: options.timeout,
      ...(options.stream ? { streaming: true } : {}),
    },
    datasets: [{ name: 'main', type: 'file', path: source, format: 'sagemaker_data_capture', random_seed: randomSeed }],
    phases: [...(warmup > 0 ? [warming] : []), rate > 0 ? { ...profiling, cancellation: { rate, delay } } : profiling],
    ...(Object.keys(slos).length > 0 ? { slos } : {}),
  };
}
