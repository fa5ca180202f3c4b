/** What became of conversations, found by user, session, id and verdict in the rows that runs wrote, before and after a merge. */

import { findTraces } from '../../../../bin/operate/find-traces.ts';
import { traceIdOf } from '../../../../src/captures/trace/ids.ts';
import { fitted } from '../../../../src/captures/trace/text.ts';
import { appendRows, listFiles } from '../../../../src/ledger/files.ts';
import { TAIL_BYTES } from '../../../../src/ledger/parquet.ts';
import { OwnLimit } from '../../../../src/limits/spending-limit.ts';
import { mergeLedger } from '../../../../src/quality/merge-ledger.ts';
import { ChunkRig, HOUR, JUDGED } from '../../../helpers/chunk-rig.ts';
import { callerLine } from '../../../helpers/deployed-captures.ts';

const NOW_MS = Date.parse('2026-11-21T12:00:00Z');
const DAY_MS = 86_400_000;
const WINDOW = { fromMs: NOW_MS - 30 * DAY_MS, toMs: NOW_MS, limit: 10 };
/** A long id, one that begins like it, and others that a query, a path or a terminal might mistake. */
const LONG = `é${'ü'.repeat(400)}`;
const ODD = ["' OR 1=1 --", '../*', 'ids%', '🜁🜂🜃🜄🜅'];
const USERS = [LONG, `${LONG}2`, 'aaaaaaaaaaaaaaaé', 'aaaaaaaaaaaaaaaè', '\0\ud800', ...ODD];
const DAYS = ['2026-11-18', '2026-11-20'];
const parentOf = (at: number): string => String(at + 1).padStart(32, 'a');
const lineOf = (user: string, at: number): string =>
  callerLine(
    `p${at}`,
    { user, session_id: `${user} s${at % 2}`, metadata: { traceparent: `00-${parentOf(at)}-00f067aa0ba902b7-01` } },
    `${DAYS[at % 2]}T10:00:${String(at).padStart(2, '0')}Z`,
    `i/${at}`,
  );
const LINES = USERS.map(lineOf);
const idOf = (line = ''): string => traceIdOf('7', Buffer.from(line));

let rig: ChunkRig;
const work = () => ({ storage: rig.storage.storage, workBucket: 'work' });
type Wanted = Partial<Parameters<typeof findTraces>[1]>;
const find = async (wanted: Wanted, window = WINDOW) => (await findTraces(work(), { ...window, ...wanted })).traces;
const merge = (): Promise<void> =>
  mergeLedger(work(), {
    measures: [],
    nowMs: NOW_MS,
    hasTime: () => true,
    skipped: () => expect('a day').toBe('merged'),
  });

beforeEach(async () => {
  rig = new ChunkRig();
  await rig.evaluate(rig.request('first', {}, 0, LINES), { limit: new OwnLimit(0) });
});

test.each(['parts', 'merged files'])('each user, session, inference and trace is found alone, in %s', async (files) => {
  if (files === 'merged files') await merge();
  for (const [at, user] of USERS.entries()) {
    const traceId = idOf(LINES[at]);
    const session = `${user} s${at % 2}`;
    const asked = [
      { user },
      { user: fitted(user) },
      { session },
      { id: `i/${at}` },
      { id: traceId },
      { parentTraceId: parentOf(at) },
    ];
    for (const wanted of asked) {
      const found = await find(wanted);
      expect(found.map((one) => one.traceId)).toEqual([traceId]);
      expect(found[0]).toMatchObject({ user: fitted(user), session: fitted(`${user} s${at % 2}`), variant: 'Blue' });
    }
    expect(await find({ user, session: `${USERS[at - 1] ?? 'nobody'} s0` })).toEqual([]);
  }
  for (const user of ['', 'nobody', LONG.slice(0, -1), 'aaaaaaaaaaaaaaa']) expect(await find({ user })).toEqual([]);
  expect(await find({ parentTraceId: parentOf(99) })).toEqual([]);
});

test('where a line went: the run that wrote it, what the budget held, and what a later run found', async () => {
  const [line = ''] = LINES;
  const place = { bucket: 'b', key: 'e/Blue/2026/11/20/10/a.jsonl', line: 1 };
  const [held] = await find({ user: LONG });
  expect(held).toMatchObject({ outcome: 'traced', run: 'first', time: '2026-11-18T10:00:00.000Z', places: [place] });
  expect(held?.verdicts).toContainEqual({ scorer: JUDGED, state: 'held' });
  await rig.evaluate(rig.request('later', { continues: ['first'] }, 0, LINES));
  await merge();
  const [later] = await find({ id: idOf(line) });
  expect(later).toMatchObject({ outcome: 'traced', run: 'first', places: [place] });
  expect(later?.verdicts).toContainEqual({ scorer: JUDGED, state: 'given', value: 'yes' });
  // A verdict that is replaced is not found.
  expect(await find({ verdicts: [{ scorer: JUDGED, value: 'held' }] })).toEqual([]);
  expect(await find({ verdicts: [{ scorer: JUDGED, value: 'yes' }] })).toHaveLength(USERS.length);
  expect(await find({ user: LONG, verdicts: [{ scorer: JUDGED, value: 'no' }, { scorer: JUDGED }] })).toHaveLength(1);
});

test('the newest are first, up to the limit, in the window', async () => {
  const all = await find({ verdicts: [{ scorer: JUDGED }] });
  expect(all.map(({ time }) => time)).toEqual(
    all
      .map(({ time }) => time)
      .toSorted()
      .toReversed(),
  );
  const few = await findTraces(work(), { ...WINDOW, limit: 2, verdicts: [{ scorer: JUDGED, value: 'held' }] });
  expect([few.traces, few.more]).toEqual([all.slice(0, 2), true]);
  const whole = await findTraces(work(), { ...WINDOW, limit: USERS.length, verdicts: [{ scorer: JUDGED }] });
  expect([whole.traces.length, whole.more]).toEqual([USERS.length, false]);
  const day = { ...WINDOW, fromMs: Date.parse(DAYS[1] ?? '') };
  expect((await find({ user: LONG }, day)).length + (await find({ user: `${LONG}2` }, day)).length).toBe(1);
});

test('of many rows, a search reads only the groups that may have the id', async () => {
  const rows = Array.from({ length: 20_000 }, (_, at) => ({
    ...{ hour: HOUR, variant: 'Blue', run: 'many', key: 'k', start: at, precedence: 1n, outcome: 'traced' },
    ...{ traceId: idOf(String(at)), userId: `user-with-a-long-name-${(at * 7919) % 20_000}` },
  }));
  await appendRows(work(), { 'ids/people': rows, captures: rows });
  await merge();
  const [file] = await Array.fromAsync(listFiles(work(), 'ids/people', DAYS[1]));
  const tail = (file?.size ?? 0) - TAIL_BYTES;
  rig.storage.reads.length = 0;
  expect(await find({ user: 'user-with-a-long-name-4711' })).toHaveLength(1);
  const ranges = rig.storage.reads
    .filter((one) => one.startsWith(file?.key ?? '-'))
    .map((one) => one.split(/[ -]/).slice(-2));
  // Beside the end of the file, one of its six groups.
  const [starts, ends] = [0, 1].map((side) => ranges.map((range) => Number(range[side])).filter((at) => at < tail));
  expect(Math.max(...(ends ?? [])) - Math.min(...(starts ?? []))).toBeLessThan((file?.size ?? 0) / 4);
});
