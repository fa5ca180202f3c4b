/** Names the command that completes a run which an upgrade has ended: its captures once more, since what is done is left as it is. */
import type { Work } from '../core/aws/storage.ts';
import {
  type BackfillInput,
  backfillInputSchema,
  type ExecutionInput,
  filesInputSchema,
  type ListedFile,
  objectInputSchema,
  retryInputSchema,
} from '../core/contract/input.ts';
import type { PlanReceipt } from '../core/contract/receipts.ts';
import { workKeys } from '../core/contract/work-keys.ts';
import { shellWord } from '../core/text/shell-word.ts';

/** A retry of a retry of …: the captures are those of the first run. */
const MOST_RETRIES = 20;

/** @returns `undefined` where the captures of the run are not known any more */
export async function completingCommand(work: Work, input: unknown): Promise<string | undefined> {
  let first = input;
  for (let retries = 0; retries < MOST_RETRIES; retries += 1) {
    const { data } = retryInputSchema.safeParse(first);
    if (data === undefined) break;
    first = (await work.storage.getJson<PlanReceipt>(work.workBucket, workKeys.plan(data.retry.run, 0)))?.input;
  }
  const source = await sourceOf(work, first);
  if (source === undefined) return undefined;
  const args = ['process', ...source, ...flagsOf(input as Partial<ExecutionInput>)];
  return `inference-monitor ${args.map(shellWord).join(' ')}`;
}

async function sourceOf({ storage, workBucket }: Work, input: unknown): Promise<string[] | undefined> {
  const object = objectInputSchema.safeParse(input).data?.detail;
  if (object !== undefined) return [`s3://${object.bucket.name}/${object.object.key}`];
  const backfill = backfillInputSchema.safeParse(input).data;
  if (backfill !== undefined) {
    const { bucket, prefix, from, to } = backfill;
    const times = [...(from ? ['--from', from] : []), ...(to ? ['--to', to] : [])];
    return [`s3://${bucket}/${prefix}`, ...times];
  }
  const list = filesInputSchema.safeParse(input).data;
  const files = list && (await storage.getJsonLines<ListedFile>(workBucket, list.files.key));
  const [one] = files ?? [];
  return one && [`s3://${one.bucket}/${commonFolder((files ?? []).map(({ key }) => key))}`];
}

/** Returns the key of the only file, or the prefix that files have in common, up to a slash. */
function commonFolder(keys: readonly string[]): string {
  const [first = '', ...others] = keys;
  if (others.length === 0) return first;
  let length = first.length;
  while (!others.every((key) => key.startsWith(first.slice(0, length)))) length -= 1;
  return first.slice(0, first.lastIndexOf('/', length - 1) + 1);
}

/** The run's own budget is not among them: what was held by it would be held again, and a part of it is spent. */
function flagsOf({ evaluate, reevaluate, sampleRate, judge }: Partial<BackfillInput>): string[] {
  return [
    ...(evaluate === false ? ['--no-evaluate'] : []),
    ...(reevaluate ? ['--reevaluate'] : []),
    ...(sampleRate === undefined ? [] : ['--sample-rate', String(sampleRate)]),
    ...(judge === 'batch' ? ['--batch'] : []),
  ];
}
