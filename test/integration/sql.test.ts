/** SQL over the ledger in the emulator's Athena, which has DuckDB behind it, in DuckDB itself, and in pandas: all count as the product does. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CreateStackCommand, waitUntilStackCreateComplete } from '@aws-sdk/client-cloudformation';
import { App, LegacyStackSynthesizer, Stack } from 'aws-cdk-lib';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { askAthena } from '../../bin/operate/athena.ts';
import type { AwsClients } from '../../bin/operate/aws-clients.ts';
import { askLocally } from '../../bin/operate/local-sql.ts';
import { ledgerSql } from '../../lib/ledger-sql.ts';
import { defaultPythonEnvironment, lockedEnvironment } from '../../local/python/python-presets.ts';
import { emulatedClients } from '../../local/servers/emulated-clients.ts';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { Storage, type Work } from '../../src/core/aws/storage.ts';
import { resourceNames, sqlDatabaseName } from '../../src/core/contract/names.ts';
import { areaOf, ledgerKeys } from '../../src/core/contract/work-keys.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { appendRows, writeLabels } from '../../src/ledger/files.ts';
import { precedenceOf, type Ranked } from '../../src/ledger/precedence.ts';
import { sqlViews } from '../../src/ledger/sql.ts';
import { type LedgerRows, noRows, type Row } from '../../src/ledger/tables.ts';
import { cellsOf, sumOfCells } from '../../src/quality/counts-store.ts';
import { foldRows } from '../../src/quality/fold.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

const OUTCOMES: readonly Ranked[] = ['traced', 'alreadyThere', 'alreadyThere', 'duplicate', 'missing', 'outsideWindow'];
const QUARANTINE = 'quarantined refused quarantined refused quarantined refused retried'.split(' ') as Ranked[];
const STATES: readonly Ranked[] = ['given', 'given', 'failed', 'held'];
const SCORERS = { safety: ['yes', 'no'], refusal: ['yes', 'no'], reply_language: ['de', 'en', 'fr'] };

let state = 20_261_120;
/** Picks in every run of the test the same. */
function pick<T>(of: readonly T[]): T {
  state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
  return of[(state >>> 8) % of.length] as T;
}

/** Returns rows of 60 lines by six runs each, with repeated attempts, replays, and lines in quarantine that a retry settles or does not. */
function manyRows(): LedgerRows {
  const rows = noRows();
  for (let at = 0; at < 360; at += 1) {
    const [line, run] = [at % 60, `r${Math.floor(at / 60)}`];
    const isQuarantine = line % 6 === 0;
    const outcome = pick(isQuarantine ? QUARANTINE : OUTCOMES);
    const [revision, evaluated] = [pick([0, 1, 2]), pick([true, false])];
    const event = {
      ...{ hour: `2026-11-2${line % 2}T1${line % 3}`, variant: line % 4 === 0 ? 'green' : 'blue', run },
      ...{ bucket: 'b', key: `f${line % 5}`, start: line, serving: line % 11 !== 0 || run !== 'r3' },
      traceId: isQuarantine ? undefined : `tr-${line}`,
    };
    const capture: Row<'captures'> = {
      ...{ ...event, outcome, precedence: precedenceOf(outcome, true, revision, `${run} ${line}`) },
      ...(isQuarantine ? { reason: pick(['NotJson', 'TooLong']) } : { outputTokens: pick([3, 5]), end: line + 1 }),
      ...(line % 13 === 0 ? { failedCall: 'timeout' } : {}),
      ...(line % 9 === 0 ? { notTraffic: line % 2 === 0 ? 'rule a' : pick([undefined, 'window', 'rule a']) } : {}),
      ...(evaluated ? { evaluated, judgeable: pick([['safety'], ['safety', 'refusal']]), strata: ['1', '1'] } : {}),
    };
    for (const attempt of pick([[0], [0, 1], [1]])) {
      rows.captures.push({ ...capture, attempt });
      if (isQuarantine) continue;
      const [precedence, index] = [capture.precedence, pick([0, 1])];
      const caller = { userId: line % 4 === 0 ? 'jane-7' : 'joe', sessionId: `s-${line % 8}` };
      rows['ids/people'].push({ ...event, ...caller, attempt, precedence });
      rows.inferences.push({ ...event, attempt, index, value: pick(['a', 'b']), isCounted: true, precedence });
      for (const [scorer, values] of Object.entries(SCORERS)) {
        const is = pick(STATES);
        const precedence = precedenceOf(is, true, revision, `${run} ${line} ${scorer}`);
        const given = is === 'given' ? { value: pick(values), stratum: '1' } : {};
        // A later attempt at the chunk says what all of them have paid.
        const usd = (pick([0, 1]) + attempt) / 8;
        rows.verdicts.push({ ...event, ...given, attempt, scorer, state: is, precedence, usd });
      }
    }
  }
  return rows;
}

const ROWS = manyRows();
const READ_AT = Date.parse('2026-11-22T09:00:00Z');
const LABELS = ROWS.captures.slice(0, 60).flatMap(({ traceId, hour, variant }): Row<'labels'>[] =>
  ['ann', 'ben'].flatMap((person) =>
    ['safety', 'refusal'].map((scorer) => ({
      ...{ traceId, hour, variant, scorer, person, value: pick(['yes', 'no']), readAt: READ_AT },
    })),
  ),
);
const STATEMENTS = [...readFileSync('docs/sql.md', 'utf8').matchAll(/```sql\n(.*?)```/gs)].map(([, text = '']) => text);

/** Folds the rows of each value of a column by themselves. */
const by = (column: 'hour' | 'variant' | 'traceId' | 'key') =>
  [...new Set(ROWS.captures.flatMap((row) => row[column] ?? []))].toSorted().map((name) => {
    const isOf = (row: Row<'captures'>) => row[column] === name;
    const own = { ...ROWS, captures: ROWS.captures.filter(isOf), verdicts: ROWS.verdicts.filter(isOf) };
    const cell = sumOfCells(cellsOf(foldRows(own, { measures: [] })));
    const valuesOf = (scorer: string) => Object.entries(cell.scorers?.[scorer]?.['1']?.values ?? {});
    const { yes = 0, no = 0 } = Object.fromEntries(valuesOf('safety'));
    return { name, cell, valuesOf, safe: yes, judged: yes + no, ...own.captures[0] };
  });

/** Returns the answers to the documented statements, in their order. */
function foldedAnswers() {
  const sorted = <T>(all: T[]): T[] => all.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  const hours = by('hour').filter(({ judged }) => judged > 0);
  const safety = hours.map(({ name, safe, judged }) => [name, judged, safe / judged]);
  const costs = by('variant').map(({ name, cell }) => [name, cell.judgeUsd]);
  const both = by('traceId').flatMap(({ valuesOf }) =>
    valuesOf('reply_language').flatMap(([language]) => valuesOf('refusal').map(([value]) => ({ language, value }))),
  );
  const refusals = [...Map.groupBy(both, ({ language }) => language)].map(([language, replies]) => {
    return [language, replies.length, replies.filter(({ value }) => value === 'yes').length];
  });
  const day = by('traceId').flatMap(({ name, cell, variant, hour = '' }) => {
    const judgeable = Object.entries(cell.scorers ?? {}).filter(([, strata]) => strata['1']?.captures === 1);
    const isAsked = cell.captures === 1 && hour.startsWith('2026-11-20');
    return isAsked ? judgeable.map(([scorer]) => [name, variant, cell.outputTokens, scorer]) : [];
  });
  const ofJane = by('traceId').flatMap(({ name, cell, variant, hour = '' }) => {
    const line = Number(name.slice('tr-'.length));
    const isAsked = cell.captures === 1 && hour.startsWith('2026-11-20') && line % 4 === 0;
    return isAsked ? [[`s-${line % 8}`, name, variant, cell.outputTokens]] : [];
  });
  const quarantine = by('key').flatMap(({ name, cell }) =>
    Object.entries(cell.quarantined ?? {}).map(([reason, lines]) => [reason, name, lines]),
  );
  const traces = new Map(by('traceId').map(({ name, valuesOf }) => [name, valuesOf]));
  const labels = ['refusal', 'safety'].map((name) => {
    const given = LABELS.filter(({ scorer }) => scorer === name).flatMap(({ traceId = '', value }) =>
      (traces.get(traceId)?.(name) ?? []).map(([verdict]) => verdict === value),
    );
    return [name, given.length, given.filter(Boolean).length, '2026-11-22'];
  });
  return [safety, costs, sorted(refusals), sorted(day), sorted(ofJane), labels, sorted(quarantine)];
}

const NAMES = { sqlDatabase: sqlDatabaseName('test'), sqlWorkGroup: resourceNames('test').sqlWorkGroup };
const DAYS = 'SELECT DISTINCT dt FROM lines ORDER BY dt';
let miniStack: MiniStack;
let clients: AwsClients;
let work: Work;

beforeAll(async () => {
  miniStack = await startMiniStack();
  clients = emulatedClients(miniStack);
  const app = new App({ outdir: temporaryFolder('sql-') });
  const stack = new Stack(app, 'Sql', { synthesizer: new LegacyStackSynthesizer() });
  ledgerSql(stack, 'test', new Bucket(stack, 'Work', { bucketName: 'sql-work' }));
  const TemplateBody = JSON.stringify(app.synth().getStackByName('Sql').template);
  const { cloudFormation: client } = clients;
  await client.send(new CreateStackCommand({ StackName: 'Sql', TemplateBody }));
  await waitUntilStackCreateComplete({ client, maxWaitTime: 120, minDelay: 1, maxDelay: 1 }, { StackName: 'Sql' });
  work = { storage: new Storage(clients.s3), workBucket: 'sql-work' };
});
afterAll(() => miniStack?.stop());

/** The emulator has tables and no views: their texts stand before the statement. */
const withViews = (statement: string): string =>
  `WITH ${Object.entries(sqlViews()).map(([name, { text }]) => `${name} AS (${text})`)} ${statement}`;
const inAthena = (statement: string) => askAthena(clients.lambda, NAMES, statement, AbortSignal.timeout(60_000));
const inDuckDb = async (statement: string, since = '2026-11-20', maxGb = 1) =>
  askLocally(work, statement, since, maxGb);
const answersOf = (statements: readonly string[], ask: (statement: string) => ReturnType<typeof inDuckDb>) =>
  Promise.all(statements.map(async (text) => (await ask(text)).rows));

test('tables without files, and files that lack columns, have all columns', async () => {
  const counts = 'SELECT count(*), count("end"), (SELECT count(*) FROM costs) FROM captures';
  expect((await inDuckDb(counts)).rows).toEqual([[0, 0, 0]]);
  const old = { hour: '2026-11-19T10', trace_id: 'tr-1', outcome: 'traced', serving: true };
  const columnData = Object.entries(old).map(([name, cell]) => ({ name, data: [cell] }));
  const content = { body: Buffer.from(parquetWriteBuffer({ columnData })), type: 'application/octet-stream' };
  await work.storage.putBytes(work.workBucket, ledgerKeys.part('captures', '2026-11-19', '10-10', 'a1'), content);
  expect((await inDuckDb(counts, '2026-11-19')).rows).toEqual([[1, 0, 0]]);
});

test('both engines answer the documented statements as the fold of the rows does, also in pages', async () => {
  await appendRows(work, { ...ROWS, captures: ROWS.captures.slice(100) });
  await appendRows(work, { ...ROWS, captures: ROWS.captures.slice(0, 200), verdicts: ROWS.verdicts.slice(300) });
  for (const day of ['2026-11-20', '2026-11-21']) {
    await writeLabels(
      work,
      day,
      LABELS.filter(({ hour }) => hour?.startsWith(day)),
    );
  }
  const expected = foldedAnswers();
  expect(await answersOf(STATEMENTS, inDuckDb)).toEqual(expected);
  expect(await answersOf(STATEMENTS.map(withViews), inAthena)).toEqual(expected);
  expect(Math.min(...expected.map(({ length }) => length))).toBeGreaterThan(1);
  const classes = await inDuckDb('SELECT value, count(*) FROM inferences WHERE serving GROUP BY value');
  expect(Object.fromEntries(classes.rows)).toEqual(sumOfCells(by('hour')).predictions?.classes);
  const { rows } = await inAthena('SELECT run FROM verdicts_rows CROSS JOIN UNNEST(ARRAY[1, 2, 3]) AS t (n)');
  // A page has at most 1,000.
  expect(rows.length).toBe(3 * (2 * ROWS.verdicts.length - 300));
});

test('values have types, files are those of the days, and what is too large or wrong is refused', async () => {
  const one = 'SELECT max(hour), max(precedence), max(start), bool_or(serving), max(time), count(*) FROM captures_rows';
  for (const ask of [inDuckDb, inAthena]) {
    const { rows, columns } = await ask(one);
    expect(columns.map(({ type }) => type)).toEqual(['varchar', 'bigint', 'double', 'boolean', 'timestamp', 'bigint']);
    expect(rows).toEqual([['2026-11-21T12', expect.any(String), 59, true, null, expect.any(Number)]]);
    await expect(ask('SELECT nothing FROM captures_rows')).rejects.toThrow(/did not answer.*nothing/s);
  }
  expect((await inDuckDb(DAYS, '2026-11-01')).rows).toEqual([['2026-11-19'], ['2026-11-20'], ['2026-11-21']]);
  await expect(inDuckDb(DAYS, '2026-11-01', 1e-6)).rejects.toMatchObject({ name: 'TooMuchToCopy' });
});

test('what sqlglot reads as Athena’s and writes as DuckDB’s has the same answers', async () => {
  const { python } = await lockedEnvironment('aws-checks');
  const check = [packagePath('test/helpers/check_sql.py')];
  const translated = (of: readonly string[]): string[] =>
    JSON.parse(execFileSync(python, check, { input: JSON.stringify(of), encoding: 'utf8', stdio: 'pipe' }));
  expect(await answersOf(translated(STATEMENTS.map(withViews)), inDuckDb)).toEqual(foldedAnswers());
  expect(() => translated(['SELECT no_such_function(hour) FROM captures'])).toThrow('no_such_function');
});

test('the notebook has the counts of the fold', async () => {
  const { python } = await defaultPythonEnvironment();
  const cwd = temporaryFolder('notebook-');
  for await (const { key } of work.storage.list(work.workBucket, areaOf('ledger'))) {
    if (key.includes('2026-11-19')) continue;
    mkdirSync(dirname(join(cwd, key)), { recursive: true });
    writeFileSync(join(cwd, key), (await work.storage.getBytes(work.workBucket, key))?.bytes ?? '');
  }
  const args = [packagePath('test/helpers/run_notebook.py'), packagePath('examples/ledger.ipynb')];
  const rows = JSON.parse(execFileSync(python, args, { cwd, encoding: 'utf8' }));
  const hours = by('hour').filter(({ cell }) => cell.captures !== undefined);
  expect(rows).toEqual(hours.map(({ name, cell, judged, safe }) => [name, cell.captures, judged, safe, cell.judgeUsd]));
});
