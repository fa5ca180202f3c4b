/** What captures are like, as `inspect` says it. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { commandSettings } from '../../../../bin/cli/settings.ts';
import { inspectPage } from '../../../../bin/commands/inspect.ts';
import { inspectAll } from '../../../../bin/offline/inspect.ts';
import { pageText } from '../../../../src/core/text/page.ts';
import { PLAIN } from '../../../../src/core/text/terminal-text.ts';
import { captureLine, chatLine } from '../../../helpers/replay.ts';

const csv = (data: string) => ({ data, encoding: 'CSV', contentType: 'text/csv' });
const parquet = { data: 'UEFSMQ==', encoding: 'BASE64', contentType: 'application/x-parquet' };
const path = join(mkdtempSync(join(tmpdir(), 'shape-')), 'a.jsonl');

async function shapeOf(lines: readonly string[], variables: Record<string, string> = {}) {
  writeFileSync(path, `${lines.join('\n')}\n`);
  const report = await inspectAll(path, commandSettings({}, variables));
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
