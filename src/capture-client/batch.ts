/** The lines that become one object, and its name in SageMaker's layout. */
import { randomUUID } from 'node:crypto';
import type { Call } from './call.ts';

export interface Batch {
  bucket: string;
  key: string;
  /** Whole lines, in slices. */
  body: Buffer[];
  bytes: number;
  lines: number;
}

/** The folder of a call's object: endpoint, variant, hour. */
export function folderOf(prefix: string, { endpoint, variant, startMs }: Call): string {
  const hour = new Date(startMs).toISOString().slice(0, 13).replace(/[-T]/g, '/');
  const names = [endpoint, variant].map((name) => name.replace(/[^\w.-]/g, '_'));
  return [prefix, ...names, hour].filter((part) => part !== '').join('/');
}

/** @param calls at least one; the first gives the object its time */
export function batchOf(bucket: string, folder: string, calls: readonly Call[], body: Buffer[]): Batch {
  const time = new Date(calls[0]?.startMs ?? Date.now()).toISOString();
  const name = `${time.slice(14, 16)}-${time.slice(17, 19)}-${time.slice(20, 23)}-${randomUUID()}.jsonl`;
  const bytes = body.reduce((sum, { length }) => sum + length, 0);
  return { bucket, key: `${folder}/${name}`, body, bytes, lines: calls.length };
}
