/** Lines that become one object, and its name in SageMaker's layout. */
import { randomUUID } from 'node:crypto';
import type { Call } from './call.ts';
import { lineOf } from './line.ts';
import type { Settings } from './options.ts';

export interface Batch {
  key: string;
  /** Whole lines. */
  body: Buffer;
}

/** Returns the number of lines. */
export function linesIn({ body }: Batch): number {
  let count = 0;
  for (let at = body.indexOf('\n'); at !== -1; at = body.indexOf('\n', at + 1)) count += 1;
  return count;
}

/** Text that is made between two turns of the application. */
const CHARS_AT_ONCE = 16 * 1024;

/**
 * Makes a batch of the calls with the folder of the first, as many as fit in one, and returns it with them. Yields between pieces of
 * bounded work. @param dropped captures since the last line
 */
export function* encode(
  calls: [Call, ...Call[]],
  settings: Settings,
  dropped: number,
): Generator<undefined, [Batch, Call[]]> {
  const folder = folderOf(settings, calls[0]);
  const parts: Buffer[] = [];
  let [bytes, text] = [0, ''];
  const push = () => {
    const part = Buffer.from(text);
    parts.push(part);
    bytes += part.length;
    text = '';
  };
  const taken: Call[] = [];
  for (const call of calls) {
    if (bytes >= settings.batchBytes) break;
    if (folderOf(settings, call) !== folder) continue;
    for (const part of lineOf(call, settings, taken.length === 0 ? dropped : 0)) {
      text += part;
      if (text.length < CHARS_AT_ONCE) continue;
      push();
      yield undefined;
    }
    taken.push(call);
  }
  push();
  const time = new Date(calls[0].startMs).toISOString();
  const key = `${folder}/${time.slice(14, 16)}-${time.slice(17, 19)}-${time.slice(20, 23)}-${randomUUID()}.jsonl`;
  return [{ key, body: Buffer.concat(parts) }, taken];
}

/** Endpoint, variant, hour. */
function folderOf({ prefix }: Settings, { endpoint, variant, startMs }: Call): string {
  const hour = new Date(startMs).toISOString().slice(0, 13).replace(/[-T]/g, '/');
  // SageMaker's names have no other characters. A key that S3 refuses would be tried for good.
  const names = [endpoint, variant].map((name) => name.replace(/[^\w-]/g, '_').slice(0, 63));
  return [prefix, ...names, hour].filter((part) => part !== '').join('/');
}
