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

const SLICE = 64 * 1024;

export const slicesOf = (bytes: Buffer): Buffer[] =>
  Array.from({ length: Math.ceil(bytes.length / SLICE) }, (_, i) => bytes.subarray(i * SLICE, (i + 1) * SLICE));

/** The folder of a call's object: endpoint, variant, hour. */
export function folderOf(prefix: string, { endpoint, variant, startMs }: Call): string {
  const hour = new Date(startMs).toISOString().slice(0, 13).replace(/[-T]/g, '/');
  const names = [endpoint, variant].map((name) => name.replace(/[^\w.-]/g, '_'));
  return [prefix, ...names, hour].filter((part) => part !== '').join('/');
}

/** Returns the key of an object. @param startMs of its first call */
export function keyIn(folder: string, startMs: number): string {
  const time = new Date(startMs).toISOString();
  return `${folder}/${time.slice(14, 16)}-${time.slice(17, 19)}-${time.slice(20, 23)}-${randomUUID()}.jsonl`;
}
