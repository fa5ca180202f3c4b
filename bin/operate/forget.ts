/** Forgets what the ledger knows of who had a conversation, and names what is left in other places. */

import type { Work } from '../../src/core/aws/storage.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { shellWord } from '../../src/core/text/shell-word.ts';
import { dayOf } from '../../src/ledger/files.ts';
import { forgetIds } from '../../src/ledger/forget.ts';
import { ID_TABLES } from '../../src/ledger/tables.ts';
import { type FoundTrace, type Hours, tracesNamed, tracesOf, tracesOfPerson } from './find-traces.ts';

/** Whom to forget: one of these. */
export interface Person {
  traces?: readonly string[] | undefined;
  user?: string | undefined;
  session?: string | undefined;
}

/** The list of what is forgotten is read with every chunk. */
const MOST_TRACES = 10_000;
/** An item that is masked, with its pseudonym if it has one. A backslash escapes what was captured in this form. */
const MASKED = /<([^<>\\]+)>/g;
const PSEUDONYM = /:[0-9a-f]{12}$/;

/**
 * Returns the traces of a person, with the hours of their inferences.
 *
 * @throws PermanentError `NotAPerson`, `NoSuchTrace`, `TooManyTraces`
 */
export async function tracesToForget(work: Work, { traces = [], user, session }: Person): Promise<Hours> {
  for (const value of [user, session]) if (value !== undefined) refuseEverybody(value);
  const found: Hours = new Map();
  const add = (hours: Hours): void => {
    for (const [traceId, hour] of hours) found.set(traceId, hour);
  };
  if (user !== undefined) add(await tracesOfPerson(work, 'userId', user));
  if (session !== undefined) add(await tracesOfPerson(work, 'sessionId', session));
  // Few days have ids, and all have captures.
  for (const table of [...ID_TABLES, 'captures'] as const) {
    const rest = traces.filter((traceId) => !found.has(traceId));
    if (rest.length > 0) add(await tracesNamed(work, rest, table));
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

/** Without a pseudonym, what is masked is the same for everybody. @throws PermanentError `NotAPerson` */
function refuseEverybody(value: string): void {
  for (const [masked, item = ''] of value.matchAll(MASKED)) {
    if (PSEUDONYM.test(item)) continue;
    const expected = 'a value with its pseudonym, such as <email:3f2a9c01d4be>, or --trace';
    throw new PermanentError('NotAPerson', `${masked} stands for everybody`, { got: value, expected });
  }
}

/** Forgets the ids of these traces. @returns how many files were rewritten */
export function forgetTraces(work: Work, hours: Hours): Promise<number> {
  const days = Map.groupBy(hours, ([, hour]) => dayOf(hour));
  const traces = [...days].map(([day, ids]) => [day, ids.map(([traceId]) => traceId)] as const);
  return forgetIds(work, Object.fromEntries(traces), Date.now());
}

/** Traces are read and deleted so many at a time. */
const AT_ONCE = 100;

/** Returns what became of the traces, in the order of time. */
export async function describedTraces(work: Work, hours: Hours): Promise<FoundTrace[]> {
  const all = [...hours];
  const found: FoundTrace[] = [];
  for (let at = 0; at < all.length; at += AT_ONCE) {
    found.push(...(await tracesOf(work, new Map(all.slice(at, at + AT_ONCE)))));
  }
  return found.toSorted((a, b) => (a.time < b.time ? -1 : 1));
}

/** Returns the commands that delete traces in MLflow. */
export const mlflowCommands = (traces: readonly FoundTrace[]): string[] =>
  [...Map.groupBy(traces, ({ experimentId }) => experimentId)].flatMap(([experimentId, own]) => {
    const parts = Array.from({ length: Math.ceil(own.length / AT_ONCE) }, (_, n) =>
      own.slice(n * AT_ONCE, (n + 1) * AT_ONCE),
    );
    return parts.map((part) => {
      const given = [experimentId, part.map(({ traceId }) => traceId)].map((one) => JSON.stringify(one));
      const code = `import mlflow; mlflow.MlflowClient().delete_traces(${given[0]}, trace_ids=${given[1]})`;
      return `python3 -c ${shellWord(code)}`;
    });
  });

const COPY = 'capture-lines.jsonl';

/** Returns the commands that write capture files again without the lines of traces; each fails if its file has changed. */
export function captureCommands(traces: readonly FoundTrace[]): string[] {
  const all = traces.flatMap(({ places }) => places).toSorted((a, b) => a.start - b.start);
  return [...Map.groupBy(all, ({ bucket, key, etag }) => JSON.stringify([bucket, key, etag])).values()].map((own) => {
    const [{ bucket = '', key = '', etag = '' } = {}] = own;
    // Behind a line is the end of the line.
    const starts = [0, ...own.map(({ end }) => end + 2)];
    const kept = starts.map((start, at) => `(${start}, ${own[at]?.start ?? 'None'})`).join(', ');
    const code = `d = open("${COPY}", "rb").read(); open("${COPY}", "wb").write(b"".join(d[a:b] for a, b in [${kept}]))`;
    const get = ['aws', 's3api', 'get-object', '--bucket', bucket, '--key', key, '--if-match', etag, COPY];
    const put = ['aws', 's3', 'cp', COPY, `s3://${bucket}/${key}`];
    return `${get.map(shellWord).join(' ')} && python3 -c ${shellWord(code)} && ${put.map(shellWord).join(' ')} && rm ${COPY}`;
  });
}
