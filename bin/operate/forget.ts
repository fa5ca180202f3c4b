/** Removes from the ledger who had a conversation, and lists what remains in other places. */

import { fitted } from '../../src/captures/trace/text.ts';
import type { Work } from '../../src/core/aws/storage.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { shellWord } from '../../src/core/text/shell-word.ts';
import { ID_TABLES } from '../../src/ledger/tables.ts';
import { type FoundTrace, type Hours, tracesWith } from './find-traces.ts';

/** The person to forget, by exactly one of these ids. */
export interface Person {
  traces?: readonly string[] | undefined;
  user?: string | undefined;
  session?: string | undefined;
}

/** Maximum number of forgotten traces, because their list is read with every chunk. */
const MOST_TRACES = 10_000;
/** A masked item, with its pseudonym if it has one. A backslash escapes captured text that has the same form. */
const MASKED = /<([^<>\\]+)>/g;
const PSEUDONYM = /:[0-9a-f]{12}$/;

/**
 * Returns the traces of a person, with the hours of their inferences.
 *
 * @throws PermanentError `NotAPerson`, `NoSuchTrace`, `TooManyTraces`
 */
export async function tracesToForget(work: Work, { traces = [], user, session }: Person): Promise<Hours> {
  for (const value of [user, session]) if (value !== undefined) refuseEverybody(value);
  const found: Hours = new Map([
    ...(user === undefined ? [] : await tracesWith(work, 'ids/people', 'userId', [fitted(user)])),
    ...(session === undefined ? [] : await tracesWith(work, 'ids/people', 'sessionId', [fitted(session)])),
  ]);
  // Few days have ids, and all have captures.
  for (const table of [...ID_TABLES, 'captures'] as const) {
    const rest = traces.filter((traceId) => !found.has(traceId));
    const own = rest.length === 0 ? [] : await tracesWith(work, table, 'traceId', rest);
    for (const [traceId, hour] of own) found.set(traceId, hour);
  }
  const [unknown] = traces.filter((traceId) => !found.has(traceId));
  if (unknown !== undefined) {
    const expected = 'the id of a trace, such as tr-1f0c…, that the ledger has a row of';
    throw new PermanentError('NoSuchTrace', 'The ledger does not know a trace', { got: unknown, expected });
  }
  if (found.size > MOST_TRACES) {
    const facts = { got: `${found.size} traces`, expected: `at most ${MOST_TRACES}, by --session or --trace` };
    throw new PermanentError('TooManyTraces', 'These are too many traces to forget at once', facts);
  }
  return found;
}

/** Refuses a masked value without a pseudonym, because everybody has the same. @throws PermanentError `NotAPerson` */
function refuseEverybody(value: string): void {
  for (const [masked, item = ''] of value.matchAll(MASKED)) {
    if (PSEUDONYM.test(item)) continue;
    const expected = 'a value with its pseudonym, such as <email:3f2a9c01d4be>, or --trace';
    throw new PermanentError('NotAPerson', `${masked} stands for everybody`, { got: value, expected });
  }
}

/** Traces that a command deletes: a shell limits its length. */
const AT_ONCE = 100;

/** Returns the commands that delete traces in MLflow. */
export function mlflowCommands(traces: readonly FoundTrace[]): string[] {
  const commands: string[] = [];
  for (const [experiment, own] of Map.groupBy(traces, ({ experimentId }) => experimentId)) {
    const ids = own.map(({ traceId }) => traceId);
    for (let at = 0; at < ids.length; at += AT_ONCE) {
      const [of, these] = [experiment, ids.slice(at, at + AT_ONCE)].map((one) => JSON.stringify(one));
      const code = `import mlflow; mlflow.MlflowClient().delete_traces(${of}, trace_ids=${these})`;
      commands.push(`python3 -c ${shellWord(code)}`);
    }
  }
  return commands;
}

/** Returns the commands that rewrite capture files without the lines of traces. A command fails if its file has changed. */
export function captureCommands(traces: readonly FoundTrace[]): string[] {
  const places = traces.flatMap((trace) => trace.places);
  const files = Map.groupBy(places, ({ bucket, key, etag }) => JSON.stringify([bucket, key, etag]));
  return [...files.values()].map((own) => {
    const [{ bucket = '', key = '', etag = '' } = {}] = own;
    const object = ['--bucket', bucket, '--key', key, '--if-match', etag];
    const get = ['aws', 's3api', 'get-object', ...object, 'lines.jsonl'];
    const sed = `LC_ALL=C sed ${shellWord(own.map(({ line }) => `${line}d`).join(';'))} lines.jsonl > rest.jsonl`;
    const put = ['aws', 's3api', 'put-object', ...object, '--body', 'rest.jsonl'];
    return [get.map(shellWord).join(' '), sed, put.map(shellWord).join(' ')].join(' && ');
  });
}
