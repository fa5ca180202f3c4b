/** The exchanges that a shard has kept → traces in MLflow, shown under the replay's run. */
import type { ObjectFacts } from '../../../shared/storage.ts';
import { SpoolBatch, type TracePorts, writeTraces } from '../../publish/write-traces.ts';
import { ObjectLines } from '../shard-lines.ts';
import type { ShardWork, StepEnd } from './evaluate.ts';

/** Of the spool at a time: a line may have 67 MB, which is put together from as few pieces. */
const BLOCK_BYTES = 8 * 1024 * 1024;
/** No batch is begun with less time: 200 traces take seconds, and a server that restarts half a minute more. */
const BATCH_RESERVE_MS = 120_000;

/** @throws what MLflow's client throws; the batches before are saved */
export async function traceExchanges(work: ShardWork, spool: ObjectFacts, ports: TracePorts): Promise<StepEnd> {
  const { storage, progress, file } = work;
  const { traces } = progress;
  const lines = new ObjectLines(storage, spool, BLOCK_BYTES, traces.offset);
  while (traces.offset < spool.size) {
    if (work.remainingMs() < BATCH_RESERVE_MS) return 'outOfTime';
    const batch = new SpoolBatch();
    for (let line = await lines.next(); line; line = batch.isFull ? undefined : await lines.next()) {
      batch.add(line.toString('utf8'));
    }
    const written = await writeTraces(ports, batch.lines, traces.linked);
    traces.written += written.traces;
    traces.refused += written.refused.length;
    traces.linked = written.linked;
    traces.offset = lines.offset;
    await file.save(progress, { refused: written.refused.map((one) => JSON.stringify(one)) });
  }
  return 'done';
}
