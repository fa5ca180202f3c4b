/**
 * What became of conversations, found by user, session, id and verdict in the rows that runs wrote, before and after a merge. And
 * that a person who is forgotten is in no object of the ledger, whatever writes at the same time.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findTraces, tracesOf } from '../../../../bin/operate/find-traces.ts';
import { captureCommands, mlflowCommands, type Person, tracesToForget } from '../../../../bin/operate/forget.ts';
import { traceIdOf } from '../../../../src/captures/trace/ids.ts';
import { fitted } from '../../../../src/captures/trace/text.ts';
import { areaOf } from '../../../../src/core/contract/work-keys.ts';
import { appendRows, listFiles } from '../../../../src/ledger/files.ts';
import { forgetIds } from '../../../../src/ledger/forget.ts';
import { readForgotten } from '../../../../src/ledger/forgotten.ts';
import { TAIL_BYTES } from '../../../../src/ledger/parquet.ts';
import { OwnLimit } from '../../../../src/limits/spending-limit.ts';
import { mergeLedger } from '../../../../src/quality/merge-ledger.ts';
import { ChunkRig, HOUR, JUDGED } from '../../../helpers/chunk-rig.ts';
import { callerLine } from '../../../helpers/deployed-captures.ts';
import { ledgerRows } from '../../../helpers/ledger-rows.ts';
import { temporaryFolder } from '../../../helpers/temporary-folder.ts';
import { testEnvironment } from '../../../helpers/test-environment.ts';

let rig: ChunkRig;
beforeEach(() => {
  rig = new ChunkRig();
});
const work = () => ({ storage: rig.storage.storage, workBucket: 'work' });
const idOf = (line = ''): string => traceIdOf('7', Buffer.from(line));
const mergeAt = (nowMs: number): Promise<void> =>
  mergeLedger(work(), { measures: [], nowMs, hasTime: () => true, skipped: () => expect('a day').toBe('merged') });

describe('find', () => {
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

  type Wanted = Partial<Parameters<typeof findTraces>[1]>;
  const find = async (wanted: Wanted, window = WINDOW) => (await findTraces(work(), { ...window, ...wanted })).traces;

  beforeEach(async () => {
    await rig.evaluate(rig.request('first', {}, 0, LINES), { limit: new OwnLimit(0) });
  });

  test.each(['parts', 'merged files'])(
    'each user, session, inference and trace is found alone, in %s',
    async (files) => {
      if (files === 'merged files') await mergeAt(NOW_MS);
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
          expect(found[0]).toMatchObject({
            user: fitted(user),
            session: fitted(`${user} s${at % 2}`),
            variant: 'Blue',
          });
        }
        expect(await find({ user, session: `${USERS[at - 1] ?? 'nobody'} s0` })).toEqual([]);
      }
      for (const user of ['', 'nobody', LONG.slice(0, -1), 'aaaaaaaaaaaaaaa']) expect(await find({ user })).toEqual([]);
      expect(await find({ parentTraceId: parentOf(99) })).toEqual([]);
    },
  );

  test('where a line went: the run that wrote it, what the budget held, and what a later run found', async () => {
    const [line = ''] = LINES;
    const place = { bucket: 'b', key: 'e/Blue/2026/11/20/10/a.jsonl', line: 1 };
    const [held] = await find({ user: LONG });
    expect(held).toMatchObject({ outcome: 'traced', run: 'first', time: '2026-11-18T10:00:00.000Z', places: [place] });
    expect(held?.verdicts).toContainEqual({ scorer: JUDGED, state: 'held' });
    await rig.evaluate(rig.request('later', { continues: ['first'] }, 0, LINES));
    await mergeAt(NOW_MS);
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
    await mergeAt(NOW_MS);
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
});

describe('forget', () => {
  const DAYS = ['2026-11-19', '2026-11-20'];
  const JANE = "jane'; \u0001é".padEnd(300, 'j');
  const JOE = 'joe-the-other-one';
  const NAMES = { [JANE]: 'janes', [JOE]: 'joes' };
  /** Two conversations of each, of two days, with ids and a group of their own. */
  const linesOf = (user: string): string[] =>
    [0, 1, 2, 3].map((at) => {
      const name = `${NAMES[user]}-${at}`;
      const caller = { user, session_id: `${name}-session`, group: `${name}-group` };
      return callerLine(name, caller, `${DAYS[at % 2]}T10:00:0${at}Z`, `${name}-inference`);
    });
  const LINES = [...linesOf(JANE), ...linesOf(JOE)];
  const environment = testEnvironment({ GROUND_TRUTH: '{"groups":["group"]}' });

  let clockMs: number;
  const run = (name: string, continues?: string[]) =>
    rig.evaluate(rig.request(name, continues ? { continues } : {}, 0, LINES), { environment });
  const merge = (hours = 0): Promise<void> => mergeAt(clockMs + hours * 3_600_000);
  async function forget(person: Person): Promise<void> {
    await forgetIds(work(), await tracesToForget(work(), person), clockMs);
  }

  /** Returns the names of those of whom something is in the ledger: in a row, or in the bytes of any object. */
  async function known(): Promise<string[]> {
    const rows = JSON.stringify(await ledgerRows(rig.storage.storage, 'work'), (_, value) =>
      typeof value === 'bigint' ? String(value) : value,
    );
    const bytes = [...rig.storage.objects].filter(([key]) => key.startsWith(areaOf('ledger')));
    const text = [rows, ...bytes.map(([key, body]) => key + body.toString('latin1'))].join('\n');
    return Object.entries(NAMES).flatMap(([user, name]) => {
      const own = fitted(user).slice(0, 16);
      const ids = [own, JSON.stringify(own).slice(1, -1), Buffer.from(own).toString('latin1'), `${name}-`];
      return ids.some((id) => text.includes(id)) ? name : [];
    });
  }
  const rowsOfJoe = async () => {
    const rows = await ledgerRows(rig.storage.storage, 'work');
    return [rows['ids/people'], rows['ids/inferences']].map((all) => new Set(all.map(({ traceId }) => traceId)));
  };
  const ALL_OF_JOE = new Set(linesOf(JOE).map(idOf));

  beforeEach(() => {
    clockMs = Date.now();
  });

  test.each<[string, Person]>([
    ['a user', { user: JANE }],
    ['a user, as the trace has it', { user: fitted(JANE) }],
    ['traces, one of them twice', { traces: [...linesOf(JANE), ...linesOf(JANE)].map(idOf) }],
  ])('%s: in parts, merged files and both, and before a retry, a second run and a merge', async (_, person) => {
    await run('first');
    await merge();
    await run('second');
    expect(await known()).toEqual(['janes', 'joes']);
    await forget(person);
    expect(await known()).toEqual(['joes']);
    expect(await rowsOfJoe()).toEqual([ALL_OF_JOE, ALL_OF_JOE]);
    await run('retry', ['second']);
    await merge(1);
    await merge(30);
    expect(await known()).toEqual(['joes']);
    expect(await rowsOfJoe()).toEqual([ALL_OF_JOE, ALL_OF_JOE]);
    // What is counted stays, and can be found by the trace.
    const { traces } = await findTraces(work(), { id: idOf(LINES[0]), fromMs: 0, toMs: clockMs * 2, limit: 5 });
    expect(traces).toMatchObject([{ outcome: 'traced', run: 'first', user: undefined, session: undefined }]);
  });

  /** Does something else just before the first write to such a key. */
  function before(key: RegExp, other: () => Promise<void>): void {
    const { putBytes } = rig.storage;
    rig.storage.putBytes = async (bucket, written, content) => {
      if (key.test(written)) {
        rig.storage.putBytes = putBytes;
        await other();
      }
      await putBytes.call(rig.storage, bucket, written, content);
    };
  }

  test.each([
    ['a merge of users and sessions', /ids\/people\/.*merged-/, () => merge()],
    ['a merge of inferences', /ids\/inferences\/.*merged-/, () => merge()],
    ['a run that has read the list before', /ids\/people\/.*part/, () => run('late').then(() => undefined)],
  ])('during %s: the next merge looks once more, and that is the last look', async (_, key, writing) => {
    await run('first');
    before(key, () => forget({ user: JANE }));
    await writing();
    // Else this test shows nothing.
    expect(await known()).toEqual(['janes', 'joes']);
    await merge(0.1);
    expect(await known()).toEqual(['joes']);
    expect((await readForgotten(work())).map(({ isSettled }) => isSettled)).toEqual([undefined]);
    await merge(2);
    expect((await readForgotten(work())).map(({ isSettled }) => isSettled)).toEqual([true]);
    expect(await rowsOfJoe()).toEqual([ALL_OF_JOE, ALL_OF_JOE]);
  });

  test('two at once, and each kill between two writes: repeated, nothing is left and nobody else is lost', async () => {
    await run('first');
    await merge();
    await run('second');
    const objects = new Map(rig.storage.objects);
    await Promise.all([forget({ user: JANE }), forget({ user: JOE })]);
    await merge(1);
    expect(await known()).toEqual([]);
    const { putBytes, putJsonIf, s3 } = rig.storage;
    for (let left = 0; left < 12; left += 1) {
      rig.storage.objects.clear();
      for (const [key, body] of objects) rig.storage.objects.set(key, body);
      let writes = left;
      const orKilled =
        <A extends unknown[], R>(write: (...args: A) => R) =>
        (...args: A): R => {
          writes -= 1;
          if (writes < 0) throw new Error('killed');
          return write.apply(rig.storage, args);
        };
      const s3Killed = { send: orKilled(s3.send) };
      Object.assign(rig.storage, { putBytes: orKilled(putBytes), putJsonIf: orKilled(putJsonIf), s3: s3Killed });
      await forget({ user: JANE }).catch(() => undefined);
      Object.assign(rig.storage, { putBytes, putJsonIf, s3 });
      for (const ids of await rowsOfJoe()) expect([...ids]).toEqual(expect.arrayContaining([...ALL_OF_JOE]));
      await forget({ user: JANE });
      await forget({ traces: linesOf(JANE).map(idOf) });
      expect(await known()).toEqual(['joes']);
    }
  });

  test.each([
    [{ user: '<email>' }, 'NotAPerson'],
    [{ session: '<session>' }, 'NotAPerson'],
    [{ user: 'acme/<email>' }, 'NotAPerson'],
    [{ user: '<not masked>' }, 'NotAPerson'],
    [{ user: '<customer_name>' }, 'NotAPerson'],
    [{ user: '<email:3f2a9c01d4be> <phone>' }, 'NotAPerson'],
    [{ user: '<email:3f2a9c01>' }, 'NotAPerson'],
    [{ traces: ['tr-1'] }, 'NoSuchTrace'],
    [{ traces: [idOf(LINES[0]), idOf('none')] }, 'NoSuchTrace'],
  ] as [Person, string][])('%j is refused', async (person, name) => {
    await run('first');
    await expect(tracesToForget(work(), person)).rejects.toMatchObject({ name });
  });

  test.each(['<email:3f2a9c01d4be>', '<\\email>', 'a < b', '<>', ''])('%j is somebody, or nobody', async (user) => {
    const row = { hour: HOUR, run: 'r', key: 'k', start: 1, traceId: idOf(user), userId: user || undefined };
    await appendRows(work(), { 'ids/people': [row] });
    expect((await tracesToForget(work(), { user })).size).toBe(user === '' ? 0 : 1);
  });

  test('a user with too many traces is refused', async () => {
    const rows = Array.from({ length: 10_001 }, (_, at) => ({ hour: HOUR, traceId: idOf(`${at}`), userId: 'bot' }));
    await appendRows(work(), { 'ids/people': rows });
    await expect(tracesToForget(work(), { user: 'bot' })).rejects.toMatchObject({ name: 'TooManyTraces' });
  });

  test('the commands for the rest delete the traces, and the lines from an unchanged file', async () => {
    await run('first');
    expect([...(await tracesToForget(work(), { session: 'janes-1-session' })).keys()]).toEqual([idOf(LINES[1])]);
    const found = await tracesOf(work(), await tracesToForget(work(), { user: JANE }));
    expect(found.map(({ traceId }) => traceId)).toEqual([0, 2, 1, 3].map((at) => idOf(LINES[at])));
    const [deletion = '', ...none] = mlflowCommands(found);
    expect([none, deletion]).toEqual([
      [],
      expect.stringContaining(`delete_traces("7", trace_ids=["${idOf(LINES[0])}",`),
    ]);
    const [command = '', ...others] = captureCommands(found);
    const { etag, key } = (await rig.storage.head('', 'e/Blue/2026/11/20/10/a.jsonl')) ?? {};
    expect([others, command]).toEqual([
      [],
      expect.stringContaining(`get-object --bucket b --key ${key} --if-match ${etag} `),
    ]);
    const cwd = temporaryFolder('lines-');
    writeFileSync(join(cwd, 'lines.jsonl'), rig.storage.objects.get(key ?? '') ?? '');
    execFileSync('sh', ['-c', command.split(' && ')[1] ?? ''], { cwd });
    expect(readFileSync(join(cwd, 'rest.jsonl'), 'utf8')).toBe(
      linesOf(JOE)
        .map((line) => `${line}\n`)
        .join(''),
    );
  });
});
