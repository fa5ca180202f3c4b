/** A person who is forgotten is in no object of the ledger, whatever writes at the same time. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findTraces, tracesOf } from '../../../../bin/operate/find-traces.ts';
import { captureCommands, mlflowCommands, type Person, tracesToForget } from '../../../../bin/operate/forget.ts';
import { traceIdOf } from '../../../../src/captures/trace/ids.ts';
import { fitted } from '../../../../src/captures/trace/text.ts';
import { areaOf } from '../../../../src/core/contract/work-keys.ts';
import { appendRows } from '../../../../src/ledger/files.ts';
import { forgetIds } from '../../../../src/ledger/forget.ts';
import { readForgotten } from '../../../../src/ledger/forgotten.ts';
import { mergeLedger } from '../../../../src/quality/merge-ledger.ts';
import { ChunkRig, HOUR } from '../../../helpers/chunk-rig.ts';
import { callerLine } from '../../../helpers/deployed-captures.ts';
import { ledgerRows } from '../../../helpers/ledger-rows.ts';
import { temporaryFolder } from '../../../helpers/temporary-folder.ts';
import { testEnvironment } from '../../../helpers/test-environment.ts';

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
const idOf = (line = ''): string => traceIdOf('7', Buffer.from(line));
const environment = testEnvironment({ GROUND_TRUTH: '{"groups":["group"]}' });

let rig: ChunkRig;
let clockMs: number;
const work = () => ({ storage: rig.storage.storage, workBucket: 'work' });
const run = (name: string, continues?: string[]) =>
  rig.evaluate(rig.request(name, continues ? { continues } : {}, 0, LINES), { environment });
const merge = (hours = 0): Promise<void> =>
  mergeLedger(work(), {
    measures: [],
    nowMs: clockMs + hours * 3_600_000,
    hasTime: () => true,
    skipped: () => expect('a day').toBe('merged'),
  });
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
  rig = new ChunkRig();
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
  expect([none, deletion]).toEqual([[], expect.stringContaining(`delete_traces("7", trace_ids=["${idOf(LINES[0])}",`)]);
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
