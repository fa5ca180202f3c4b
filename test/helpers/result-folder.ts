/** Writes result folders of replays, as `compare` reads them, without a replay. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface RequestSpec {
  file?: string;
  line?: number;
  eventId?: string;
  ms?: number;
  /** After the start of the run, in any unit. */
  sent?: number;
  ok?: boolean;
  /** Further metrics of the record. */
  metrics?: Record<string, number>;
  /** When the first token of a stream that broke came, ms after it was sent. */
  firstToken?: number;
  /** The fields that mark a record as canceled. */
  cancelled?: object;
  text?: string;
  /** The user's message, which a judge reads. */
  question?: string;
  /** Why the model stopped. */
  finish?: string;
}

const NS = 1_795_233_124_000_000_000;

/** Writes a run with these requests, in the order of their completion, and returns its directory. */
export function writeRun(directory: string, specs: readonly RequestSpec[]): string {
  mkdirSync(directory);
  const records = specs.map((spec) => {
    const { file = 'a.jsonl', line = 1, eventId, ms = 10, sent = 0, ok = true, cancelled, firstToken } = spec;
    const metrics = Object.entries({ request_latency: ms, ...spec.metrics });
    return JSON.stringify({
      metadata: {
        ...(eventId ? { event_id: eventId } : {}),
        ...cancelled,
        request_start_ns: NS + sent * 1e6,
        ...(firstToken === undefined ? {} : { first_token_ns: NS + firstToken * 1e6 }),
        ...{ s3_key: file, line, pass: 0, scheduled_ns: NS, request_end_ns: NS + ms * 1e6 },
      },
      metrics: ok ? Object.fromEntries(metrics.map(([tag, value]) => [tag, { value, unit: 'ms' }])) : {},
      ...(ok ? {} : { error: { code: 500, type: 'x', message: 'y' } }),
    });
  });
  const replies = specs.map(
    ({ file = 'a.jsonl', line = 1, eventId, ok = true, cancelled, text = 'same', question, finish }) =>
      JSON.stringify({
        key: `${eventId ?? file.split('/').at(-1)}:${line}`,
        ...(eventId ? { event_id: eventId } : {}),
        ...{ file, line, input: '' },
        ...(question === undefined ? {} : { messages: [{ role: 'user', content: question }] }),
        reply: ok
          ? { ok, text, ...(finish === undefined ? {} : { finishReasons: [finish] }) }
          : { ok, text: '', error: { code: 500, message: 'y' }, ...(cancelled ? { cancelled: true } : {}) },
      }),
  );
  writeFileSync(join(directory, 'profile_export.jsonl'), `${records.join('\n')}\n`);
  writeFileSync(join(directory, 'replies.jsonl'), `${replies.join('\n')}\n`);
  return directory;
}

/** Requests with the lines 1 to `count`. */
export const numbered = (count: number, one: (i: number) => Omit<RequestSpec, 'line'>): RequestSpec[] =>
  Array.from({ length: count }, (_, i) => ({ line: i + 1, ...one(i) }));
