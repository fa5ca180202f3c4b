/** Merges the lines of all shards into the files of the result set. */
import { join } from 'node:path';
import type { ObjectFacts, Storage } from '../../../core/aws/storage.ts';
import { TextUpload } from '../../../core/aws/uploads.ts';
import { ReplyQualityTally } from '../../compare/quality.ts';
import { REPLIES_FILE, type StoredReply } from '../../compare/replies-file.ts';
import type { MonitoringRun } from '../../compare/run-data.ts';
import type { CapturedComparison } from '../../compare/with-captured.ts';
import type { Turn } from '../../request/sessions.ts';
import { InputsFile, inputOf, MAX_INPUTS } from '../../results/inputs.ts';
import { FILES } from '../../results/result-set.ts';
import { linesOf, type MergeSource, mergeLines } from '../work-bucket/object-lines.ts';
import { plannedSkippedKey, SHARD_FILES, type StoredPlan } from '../work-bucket/stored-plan.ts';
import type { Collected } from './collect.ts';

const LINE_END = Buffer.from('\n');
const NS_PER_MS = 1e6;
const END_KEY = Buffer.from('"request_end_ns":');

/** The destination and the sources of the files. */
export interface MergeContext {
  storage: Storage;
  bucket: string;
  /** Prefix of the result set. */
  prefix: string;
  plan: StoredPlan;
  collected: Collected;
  /** The run of the monitoring that was started for the exchanges. */
  monitoringRun?: MonitoringRun | undefined;
}

/** When a record ended, epoch ns. A double is exact to a quarter of a microsecond. */
function endOf(line: Buffer): number {
  const at = line.indexOf(END_KEY) + END_KEY.length;
  return Number.parseInt(line.toString('latin1', at, at + 20), 10);
}

/** Merges the records in the order in which they completed. */
export async function mergeRecords(context: MergeContext): Promise<void> {
  const { storage, collected } = context;
  const sources = (collected.files.get(FILES.records) ?? []).map(
    ({ object, firstStartMs }): MergeSource => ({ object, leastKey: firstStartMs * NS_PER_MS }),
  );
  await uploadLines(context, FILES.records, mergeLines(storage, sources, endOf));
}

async function uploadLines(context: MergeContext, name: string, lines: AsyncIterable<Buffer>): Promise<void> {
  const { storage, bucket, prefix } = context;
  const upload = new TextUpload(storage, bucket, `${prefix}${name}`);
  for await (const line of lines) await upload.write(Buffer.concat([line, LINE_END]));
  await upload.close();
}

/** Joins the skipped lines: first those of the plan, then those of the shards. */
export async function mergeSkipped(context: MergeContext): Promise<void> {
  const { storage, bucket, plan, collected } = context;
  const planned = await storage.head(bucket, plannedSkippedKey(plan.run));
  const objects = [...(planned ? [planned] : []), ...objectsOf(collected, FILES.skipped)];
  if (objects.length > 0) await uploadLines(context, FILES.skipped, linesOf(storage, objects));
}

/** Merges the replies of all shards, and adds up their comparisons. */
export async function mergeReplies(context: MergeContext): Promise<CapturedComparison> {
  const tally = new ReplyQualityTally();
  const { storage, collected } = context;
  async function* tallied(): AsyncGenerator<Buffer> {
    for await (const line of linesOf(storage, objectsOf(collected, REPLIES_FILE))) {
      tally.add(JSON.parse(line.toString('utf8')) as StoredReply);
      yield line;
    }
  }
  await uploadLines(context, REPLIES_FILE, tallied());
  return tally.result();
}

/** Total bytes of a file's parts. */
export const bytesOf = (collected: Collected, name: string): number =>
  objectsOf(collected, name).reduce((sum, { size }) => sum + size, 0);

const objectsOf = (collected: Collected, name: string): ObjectFacts[] =>
  (collected.files.get(name) ?? []).map(({ object }) => object);

/** Merges `inputs.json`. @returns the reason if it was left out */
export async function mergeInputs(context: MergeContext, directory: string): Promise<string | undefined> {
  const { storage, plan, collected } = context;
  if (plan.requests > MAX_INPUTS) return 'more requests than inputs.json can contain';
  const shards = collected.files.get(SHARD_FILES.inputs) ?? [];
  const file = new InputsFile(join(directory, FILES.inputs));
  const fileOf = new Map(shards.map((file) => [file.shard, file]));
  for (const stripes of Map.groupBy(plan.shards, ({ window }) => window).values()) {
    // The requests of a window were dealt to its stripes in turn.
    const sources = stripes.flatMap(({ shard }) => {
      const file = fileOf.get(shard);
      return file ? [{ object: file.object, leastKey: 0 }] : [];
    });
    const left = stripes.map(({ shard }) => fileOf.get(shard)?.sent ?? 0);
    for await (const line of mergeLines(storage, sources, (one) =>
      Number.parseInt(one.toString('latin1', 0, 20), 10),
    )) {
      const [place, turn, payload] = inputOf(line);
      // Requests that were prepared but not sent when the shard was stopped are left out.
      const stripe = Number(place) % stripes.length;
      if ((left[stripe] ?? 0) <= 0) continue;
      left[stripe] = (left[stripe] ?? 0) - 1;
      file.addPayload(JSON.parse(turn) as Turn, payload);
      await file.room();
    }
  }
  return file.finish();
}
