/** Sends the first requests before the clock starts, so that the target is warm. Their results are not counted. */
import { Random } from '../../shared/random.ts';
import type { RunClock } from '../clock.ts';
import type { ConnectionPool } from '../http/pool.ts';
import { Preparer } from '../request/preparer.ts';
import type { SendSchedule } from '../schedule/timing.ts';
import type { LineReader } from '../source/types.ts';
import { Dispatcher } from './dispatcher.ts';
import { Feeder } from './feeder.ts';
import type { SendJob } from './job.ts';
import { Recorder } from './recorder.ts';
import { Renewer } from './renewer.ts';
import { onAbort, stoppedError } from './stop.ts';

const WARMUP_CONCURRENCY = 8;

export async function warmUp(
  job: SendJob,
  entries: NonNullable<SendSchedule['warmup']>,
  pool: ConnectionPool,
  clock: RunClock,
  reader: LineReader,
  signal: AbortSignal | undefined,
): Promise<void> {
  const preparer = new Preparer({
    ...job,
    run: `${job.run}-warmup`,
    reader,
    random: new Random(job.seed),
    onSkipped: () => {},
  });
  const recorder = new Recorder(job, clock);
  const dispatcher = new Dispatcher({
    pool,
    maxConcurrency: Math.min(job.maxConcurrency, WARMUP_CONCURRENCY),
    timeoutMs: job.timeoutMs,
    onDone: (done) => {
      recorder.record(done);
      done.exchange.release();
    },
  });
  const feeding = new Feeder({
    batches: entries,
    prepare: (scheduled) => preparer.prepare(scheduled, 'warmup'),
    dispatcher,
    maxConcurrency: WARMUP_CONCURRENCY,
    firstDueMs: 0,
    elapsedMs: () => 0,
  });
  const stop = (): void => {
    feeding.stop();
    dispatcher.stop(stoppedError());
  };
  const removeListener = onAbort(signal, stop);
  const renewer = new Renewer(dispatcher.queue, job.target.goodForMs);
  dispatcher.start(performance.now());
  try {
    await feeding.run();
    dispatcher.close();
    await dispatcher.drained();
  } catch (error) {
    stop();
    throw error;
  } finally {
    renewer.stop();
    removeListener();
  }
}
