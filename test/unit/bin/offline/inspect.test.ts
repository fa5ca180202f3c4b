import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { commandSettings } from '../../../../bin/cli/settings.ts';
import { inspectPage, linePage } from '../../../../bin/commands/inspect.ts';
import { parseLocation } from '../../../../bin/offline/capture-files.ts';
import { inspectAll, inspectLine } from '../../../../bin/offline/inspect.ts';
import { Storer } from '../../../../src/captures/trace/storable.ts';
import { packagePath } from '../../../../src/core/process/package-folder.ts';
import { pageText } from '../../../../src/core/text/page.ts';
import { PLAIN } from '../../../../src/core/text/terminal-text.ts';
import { expectPublished } from '../../../helpers/published-json.ts';
import { captureLine, chatLine } from '../../../helpers/replay.ts';
import { timedLine } from '../../../helpers/timed-line.ts';

const settings = commandSettings({}, {});
const EXAMPLES = packagePath('examples', 'captures');
const CORPUS = packagePath('test', 'corpus');
const DAY = join(EXAMPLES, 'garden-helpdesk/AllTraffic/2026/11/18');
const folder = mkdtempSync(join(tmpdir(), 'inspect-'));
const chat = readFileSync(join(CORPUS, 'chat.jsonl'), 'utf8').split('\n')[0] ?? '';

/** Writes a file of lines. */
function fileOf(name: string, ...lines: (string | Buffer)[]): string {
  const path = join(folder, name);
  writeFileSync(path, Buffer.concat(lines.map((line) => Buffer.concat([Buffer.from(line), Buffer.from('\n')]))));
  return path;
}

const text = async (path: string): Promise<string> => pageText(inspectPage(await inspectAll(path, settings)));

test('tells what the examples contain, and what judging them would cost', async () => {
  const report = await inspectAll(EXAMPLES, settings);
  expect(expectPublished('inspect', JSON.stringify(report))).toEqual(report);
  expect(report).toMatchObject({ files: 8, gzip: 0, lines: 35, captures: 34, duplicates: 0, unreadable: [] });
  expect(report.times).toEqual({ first: '2026-11-18T09:00:12.000Z', last: '2026-11-18T11:36:18.000Z' });
  const [reason] = report.quarantined;
  expect(reason).toMatchObject({ name: 'NotJson', count: 1, at: [{ line: 4 }] });
  expect(reason?.at[0]?.message).toContain('the line is cut off');
  expect(report.shape.facts[0]?.says).toContain('17 × chat (openai-chat, json to json), 3 × chat-stream (');
  const safety = report.scorers.find(({ name }) => name === 'safety');
  const left = Object.values(safety?.not ?? {}).reduce((sum, count) => sum + count, 0);
  expect((safety?.captures ?? 0) + left).toBe(report.captures);
  expect(report.cost).toMatchObject({ captures: 34, judgedCaptures: 24, judgeCalls: 24 });
  expect(report.cost.usd).toBeGreaterThan(0.1);
});

test('names the scorers of times where captures have times, and only there', async () => {
  const client = { streamed: true, ended: 'whole', status: 200, firstByteMs: 1, firstMs: 82, endMs: 430 };
  const path = fileOf('times.jsonl', chat, JSON.stringify(timedLine(JSON.parse(chat), client)));
  const named = async (line: number) => Object.keys((await inspectLine(path, line, settings)).scorers ?? {});
  const times = ['latency_ms', 'time_to_first_token_ms'];
  expect((await named(2)).filter((name) => times.includes(name))).toEqual(times);
  expect((await named(1)).some((name) => times.includes(name))).toBe(false);
  const { scorers } = await inspectAll(path, settings);
  const latency = { name: 'latency_ms', kind: 'code', captures: 1, not: {} };
  expect(scorers.find(({ name }) => name === 'latency_ms')).toEqual(latency);
  expect((await inspectAll(EXAMPLES, settings)).scorers.some(({ name }) => times.includes(name))).toBe(false);
});

afterEach(() => jest.restoreAllMocks());

test('quarantines a line whose trace cannot be built, as the stack does', async () => {
  jest.spyOn(Storer.prototype, 'store').mockImplementation(() => {
    throw new SyntaxError('no number');
  });
  const path = fileOf('no-trace.jsonl', chat);
  const reason = { name: 'TraceNotBuilt', message: expect.stringMatching(/: SyntaxError$/) };
  expect(await inspectAll(path, settings)).toMatchObject({
    captures: 0,
    quarantined: [{ name: reason.name, count: 1, at: [{ line: 1, message: reason.message }] }],
  });
  expect(await inspectLine(path, 1, settings)).toMatchObject({ quarantined: reason });
});

test('finds in the corpus the quarantined lines that the corpus names, each with its reason', async () => {
  const report = await inspectAll(join(CORPUS, 'quarantine.jsonl'), settings);
  expect(report.captures).toBe(0);
  expect(report.quarantined.reduce((sum, { count }) => sum + count, 0)).toBe(report.lines);
  expect(report.quarantined.map(({ name }) => name).sort()).toEqual(['NestedTooDeep', 'NotACaptureRecord', 'NotJson']);
  expect(await text(join(CORPUS, 'quarantine.jsonl'))).toContain(
    'No line is a capture. Expected: files of Data Capture',
  );
});

test('reads as the settings say', async () => {
  const path = fileOf('long.jsonl', chat.replace('{', `{${' '.repeat(1024)}`));
  const { captures, quarantined } = await inspectAll(path, commandSettings({}, { MAX_LINE_BYTES: '1024' }));
  expect([captures, quarantined[0]?.name]).toEqual([0, 'LineTooLong']);
  const csv = join(CORPUS, 'tabular-csv.jsonl');
  const features = JSON.stringify(['first', 'second', 'third']);
  const [plain, named] = [settings, commandSettings({}, { FEATURE_NAMES: features })].map((how) =>
    inspectLine(csv, 1, how),
  );
  expect(JSON.stringify((await named)?.trace)).toContain('"first"');
  expect(JSON.stringify((await plain)?.trace)).not.toContain('"first"');
});

test('counts identical lines once', async () => {
  const twice = await inspectAll(fileOf('twice.jsonl', chat, '', chat), settings);
  expect(twice).toMatchObject({ lines: 2, captures: 1, duplicates: 1 });
});

test('says that the stack does not read a file that is named *.gz, whatever it contains', async () => {
  const path = fileOf('plain.jsonl.gz', chat);
  expect(await inspectAll(path, settings)).toMatchObject({ files: 1, gzip: 1, captures: 1 });
  expect(await text(path)).toContain('the stack reads only uncompressed *.jsonl');
});

test('reads gzip, bounds what it unpacks, and names a damaged file without losing the others', async () => {
  const files = mkdtempSync(join(tmpdir(), 'inspect-gz-'));
  writeFileSync(join(files, 'a.jsonl.gz'), gzipSync(`${chat}\n`));
  writeFileSync(join(files, 'b.jsonl.gz'), gzipSync(`${chat.replace('{', '{ ')}\n`).subarray(0, 200));
  // 100 MB in one line.
  writeFileSync(join(files, 'c.jsonl.gz'), gzipSync(Buffer.alloc(100 * 1024 * 1024, '[')));
  const before = process.resourceUsage().maxRSS;
  const report = await inspectAll(files, settings);
  expect(process.resourceUsage().maxRSS - before).toBeLessThan(150 * 1024);
  expect(report).toMatchObject({ files: 3, gzip: 3, captures: 1 });
  expect(report.unreadable).toEqual([
    { file: join(files, 'b.jsonl.gz'), message: expect.stringContaining('damaged gzip: unexpected end of file') },
  ]);
  expect(report.quarantined.map(({ name }) => name)).toEqual(['LineTooLong']);
  await expect(inspectAll(join(files, 'b.jsonl.gz'), settings)).rejects.toThrow('damaged gzip');
});

test('reads a very large line as any other', async () => {
  const record = JSON.parse(chat);
  record.captureData.endpointInput.data = JSON.stringify({ inputs: 'x'.repeat(30_000_000) });
  const path = fileOf('huge.jsonl', JSON.stringify(record), chat);
  const report = await inspectAll(path, settings);
  expect(report).toMatchObject({ lines: 2, captures: 2, quarantined: [] });
  expect((await inspectLine(path, 1, settings)).trace?.requestPreview).toContain('xxx');
});

test('says which line has too many values for the memory', async () => {
  const record = JSON.parse(chat);
  record.captureData.endpointInput.data = JSON.stringify({ inputs: Array(30_000_000).fill(0) });
  const report = await inspectAll(fileOf('heavy.jsonl', JSON.stringify(record), chat), settings);
  expect(report.captures + report.quarantined.length).toBe(2);
  expect(JSON.stringify(report)).toContain('more memory than a function');
});

test('shows a line as its trace', async () => {
  const path = join(DAY, '10/00-05-071-64f755da-f559-4676-9be7-17d9472d2555.jsonl');
  const report = await inspectLine(path, 3, settings);
  expectPublished('inspect', JSON.stringify(report));
  expect(report.trace).toMatchObject({ name: 'garden-helpdesk', state: 'OK' });
  expect(report.trace?.tags).toMatchObject({ sagemaker_variant_name: 'AllTraffic' });
  const shown = pageText(linePage(report));
  const told = ['Tell me about pruning apple trees', 'the stream ends without its end marker'];
  for (const part of ['chat-stream', ...told, 'safety']) {
    expect(shown).toContain(part);
  }
  await expect(inspectLine(path, 400, settings)).rejects.toThrow('The file has no such line');
  await expect(inspectLine(EXAMPLES, 1, settings)).rejects.toThrow('A folder has no lines');
});

test('shortens texts, lists and objects in the view of a line, and says by how much', async () => {
  const record = JSON.parse(chat);
  const [list, texts] = [Array.from({ length: 60 }, (_, at) => `item-${at}.`), { long: 'x'.repeat(2_010) }];
  const object = Object.fromEntries(list.map((name) => [`key-${name}`, 1]));
  record.captureData.endpointInput.data = JSON.stringify({ inputs: 'Hello there', list, object, texts });
  const shown = pageText(linePage(await inspectLine(fileOf('long.jsonl', JSON.stringify(record)), 1, settings)));
  const each = ['… (10 more)', '… (10 more)', '… (10 characters more)'];
  // The trace and its span have the request.
  expect(shown.match(/… \(.*? more\)/g)).toEqual([...each, ...each]);
  expect(['item-49.', 'item-50.'].map((item) => shown.includes(item))).toEqual([true, false]);
});

test('takes path:line apart, unless a file has that name', () => {
  expect(parseLocation('a/b.jsonl:17')).toEqual({ path: 'a/b.jsonl', line: 17 });
  expect(parseLocation('a/b.jsonl')).toEqual({ path: 'a/b.jsonl' });
  const odd = fileOf('odd:17', chat);
  expect(parseLocation(odd)).toEqual({ path: odd });
});

describe('what captures are like', () => {
  const csv = (data: string) => ({ data, encoding: 'CSV', contentType: 'text/csv' });
  const parquet = { data: 'UEFSMQ==', encoding: 'BASE64', contentType: 'application/x-parquet' };

  async function shapeOf(lines: readonly string[], variables: Record<string, string> = {}) {
    const report = await inspectAll(fileOf('shape.jsonl', ...lines), commandSettings({}, variables));
    const said = report.shape.facts.map(({ about, captures, setting }) => [about, [captures, setting]]);
    return { facts: Object.fromEntries(said), text: pageText(inspectPage(report), { width: 80, style: PLAIN }) };
  }
  const times = (count: number, make: (at: number) => string) => Array.from({ length: count }, (_, at) => make(at));
  const replies = (...data: string[]) => data.map((reply, at) => captureLine(`e${at}`, at, parquet, csv(reply)));
  const HEADER = 'class_pred\nyes\nno\n';

  test.each([
    ['five of one first row', replies(HEADER, HEADER, HEADER, HEADER, `${HEADER}no\n`), {}, 'CSV_HEADER=true'],
    ['with CSV_HEADER', replies(...Array(5).fill(HEADER)), { CSV_HEADER: 'true' }, undefined],
    ['one of another', replies(...Array(5).fill(HEADER), 'maybe\nyes\n'), {}, undefined],
    ['one in which it stands again', replies(...Array(5).fill(HEADER), 'class_pred\nclass_pred\n'), {}, undefined],
    ['numbers', replies(...Array(5).fill('1\n0\n')), {}, undefined],
  ])('a header of replies: %s', async (_, lines, variables, setting) => {
    expect((await shapeOf(lines, variables)).facts.header).toEqual([lines.length, setting]);
  });

  test('four replies are too few to have a header', async () => {
    expect((await shapeOf(replies(...Array(4).fill(HEADER)))).facts).not.toHaveProperty('header');
  });

  test('names columns, ids, predictions, errors, and what nobody judges', async () => {
    const error = { data: '{"error":{"message":"jane@example.com","code":400}}' };
    const { facts, text } = await shapeOf([
      ...times(5, (at) =>
        captureLine(`r${at}`, at, csv('1,2,3\n'), csv(`0.${at}5\n`), at > 2 ? { inferenceId: `i${at}` } : {}),
      ),
      captureLine('f', 9, { data: '{}' }, error),
    ]);
    expect(facts).toMatchObject({
      formats: [6, undefined],
      columns: [5, 'FEATURE_NAMES to a JSON list of the names of 3 columns'],
      truth: [6, `GROUND_TRUTH='{"kind":"numbers"}'`],
      errors: [1, undefined],
      unjudged: [5, undefined],
    });
    expect(text.replaceAll(/\s+/g, ' ')).toContain(
      'Labels join 2 captures by inferenceId and 4 by eventId. Predictions: 5 × numbers.',
    );
    expect(text).toContain('Error replies, which are not judged: 1 × 400 as json.');
    expect(text).not.toContain('jane');
  });

  test('personal data has kinds, fields and counts, and no values', async () => {
    const odd = { 'card\u001b[31m': '4111111111111111', 'bob@example.com': 1 };
    const row = { mail: 'jane@example.com', ...odd, note: 'a@b.de says hi' };
    const lines = [
      captureLine('a', 1, { data: JSON.stringify({ instances: [row] }) }, { data: '{"predictions":["yes"]}' }),
      chatLine('b', 2, 'mail jane@example.com'),
      captureLine('c', 3, csv('7,jane@example.com\n'), csv('1\n')),
    ];
    const { facts, text } = await shapeOf(lines);
    expect(facts.personalData).toEqual([3, 'REDACT=email,card,field:mail,field:#2']);
    expect(text).toContain('3 × email');
    for (const field of ['mail', 'note', 'content', 'names of fields'])
      expect(text.replaceAll(/\s+/g, ' ')).toContain(`email in ${field}`);
    expect(text.replaceAll(/\s+/g, ' ')).toContain('1 × 4 columns (mail, card [31m, <email>, note)');
    expect(text).not.toMatch(/jane|bob@|4111/);
    expect(text).not.toContain('\u001b');
    const left = await shapeOf(lines, { REDACT: 'card' });
    expect(left.facts.personalData).toEqual([3, 'REDACT=card,email,field:mail,field:#2']);
    expect((await shapeOf(lines, { REDACT: 'card,email' })).facts.personalData).toEqual([0, undefined]);
  });
});
