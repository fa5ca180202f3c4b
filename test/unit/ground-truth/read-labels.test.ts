/** Label files in all forms, and what is wrong in them: each line is a label or a named fault, and the rest continues. */
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import type { Label, LabelFault } from '../../../src/core/contract/ground-truth.ts';
import { type GroundTruthSettings, groundTruthSchema } from '../../../src/core/settings/ground-truth-setting.ts';
import { readLabels } from '../../../src/ground-truth/labels/read-labels.ts';

/** @param pieces bytes of a piece of the stream */
async function read(
  content: string | Buffer,
  {
    name = 'f.jsonl',
    settings = {},
    pieces = 5,
  }: { name?: string; settings?: Partial<GroundTruthSettings>; pieces?: number } = {},
): Promise<(Label | LabelFault)[]> {
  const bytes = Buffer.from(content);
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += pieces) parts.push(bytes.subarray(at, at + pieces));
  const items: (Label | LabelFault)[] = [];
  for await (const item of readLabels(Readable.from(parts), { name, timeMs: 7 }, groundTruthSchema.parse(settings)))
    items.push(item);
  return items;
}
const csv = (content: string | Buffer, more: Parameters<typeof read>[1] = {}) =>
  read(content, { name: 'f.csv', ...more });

/** `id=value` of labels, `line:name` of faults. */
const brief = (items: (Label | LabelFault)[]): string[] =>
  items.map((item) => ('id' in item ? `${item.id}=${JSON.stringify(item.value)}` : `${item.line}:${item.name}`));

const monitors = (data: unknown, encoding: string | undefined, more: object = {}): string =>
  JSON.stringify({ groundTruthData: { data, encoding }, eventMetadata: { eventId: 'e' }, eventVersion: '0', ...more });

describe("Model Monitor's records", () => {
  test.each([
    ['the documented one', monitors('1', 'CSV'), 'e=1'],
    ['a class', monitors('cat', 'CSV'), 'e="cat"'],
    ['a quoted text', monitors('"a, ""b"""', 'CSV'), 'e="a, \\"b\\""'],
    ['leading zeros', monitors('007', 'CSV'), 'e="007"'],
    ['JSON', monitors('true', 'JSON'), 'e=true'],
    ['a JSON list of one', monitors('["cat"]', 'json'), 'e="cat"'],
    ['base64', monitors(Buffer.from('0.5\n').toString('base64'), 'BASE64'), 'e=0.5'],
    ['no encoding', monitors('1', undefined), 'e=1'],
    ['a number in place of text', monitors(1, 'CSV'), 'e=1'],
    [
      'an inference id beside the event id',
      monitors('1', 'CSV', { eventMetadata: { eventId: 'e', inferenceId: 'i' } }),
      'i=1',
    ],
    ['an encoding that there is not', monitors('1', 'XML'), '1:UnknownEncoding'],
    ['base64 that is none', monitors('§', 'BASE64'), '1:UnknownEncoding'],
    ['several values', monitors('1,0.9', 'CSV'), '1:ImpossibleLabel'],
    ['no value', monitors('', 'CSV'), '1:ImpossibleLabel'],
    ['null', monitors(null, 'CSV'), '1:ImpossibleLabel'],
    ['an object', monitors('{"a":1}', 'JSON'), '1:ImpossibleLabel'],
    ['text that is not JSON', monitors('{', 'JSON'), '1:ImpossibleLabel'],
    ['no event', monitors('1', 'CSV', { eventMetadata: null }), '1:NotALabel'],
  ])('%s', async (_, line, expected) => {
    expect(brief(await read(`${line}\n`))).toEqual([expected]);
  });
});

describe('JSON Lines', () => {
  test('all fields of a label, and none that are not', async () => {
    const lines = [
      { id: 'a', label: 1, endpoint: 'x', scorer: 'safety', by: 'Ada', other: [1] },
      { inference_id: 'b', ground_truth: 'dog', by: 'Ada' },
    ];
    expect(await read(lines.map((line) => JSON.stringify(line)).join('\r\n'))).toEqual([
      { id: 'a', value: 1, endpoint: 'x', scorer: 'safety', by: 'Ada', line: 1, timeMs: 7 },
      { id: 'b', value: 'dog', line: 2, timeMs: 7 },
    ]);
  });

  test.each([
    ['names in other styles', '{"Inference-ID":"a","groundTruth":false}', 'a=false'],
    ['an id that is a number', '{"id":12345678901234567890,"label":1}', '12345678901234567890=1'],
    ['a value beyond a double', '{"id":"a","label":12345678901234567890}', 'a="12345678901234567890"'],
    ['an empty inference id beside an event id', '{"inference_id":null,"event_id":"e","label":1}', 'e=1'],
    ['a name of an object', '{"__proto__":{"id":"a","label":1},"id":"b","label":2}', 'b=2'],
    ['NaN', '{"id":"a","label":NaN}', '1:ImpossibleLabel'],
    ['infinity', '{"id":"a","label":"-Infinity"}', '1:ImpossibleLabel'],
    ['a list', '{"id":"a","label":[1]}', '1:ImpossibleLabel'],
    ['blanks', '{"id":"a","label":"  "}', '1:ImpossibleLabel'],
    ['a value without end', `{"id":"a","label":"${'x'.repeat(20_000)}"}`, '1:ImpossibleLabel'],
    ['no value', '{"id":"a"}', '1:ImpossibleLabel'],
    ['no id', '{"label":1}', '1:NotALabel'],
    ['an empty id', '{"id":"","label":1}', '1:NotALabel'],
    ['an id that the index cuts', `{"id":"${'x'.repeat(257)}","label":1}`, '1:NotALabel'],
    ['a list in place of an object', '["a",1]', 'NotJsonLines'],
    ['a text', '"a"', '1:NotALabel'],
    ['deep nesting', `{"id":"a","label":1,"x":${'['.repeat(5_000)}${']'.repeat(5_000)}}`, '1:NotALabel'],
  ])('%s', async (_, line, expected) => {
    const found = read(`${line}\n`).then(brief, ({ name }: Error) => [name]);
    expect(await found).toEqual([expected]);
  });

  test('what is wrong in a line costs no other, and a cut last line is named so', async () => {
    const content = Buffer.concat([
      Buffer.from('{"id":"a","label":1}\n\n  \nnonsense\n{"id":"'),
      Buffer.from([0xe4]),
      Buffer.from(`"}\n{"id":"${'x'.repeat(2 ** 20)}","label":1}\n{"id":"b","label":2}\n{"id":"c","lab`),
    ]);
    const found = ['a=1', '4:NotALabel', '5:NotUtf8', '6:TooLong', 'b=2', '8:CutOff'];
    expect(brief(await read(content, { pieces: 65_536 }))).toEqual(found);
    // Cut within a character.
    expect(brief(await read(Buffer.from('{"id":"ä').subarray(0, -1)))).toEqual(['1:CutOff']);
  });
});

describe('CSV', () => {
  test.each([
    ['commas', 'inference_id,label\na,1\nb,x\n', ['a=1', 'b="x"']],
    ['semicolons', 'Label;EVENT ID;date\n1;a;2026\n', ['a=1']],
    ['tabs', 'id\tground truth\na\t0.50\n', ['a="0.50"']],
    ['columns in another order, also empty ones', ',label,,id\n9,1,,a\n', ['a=1']],
    [
      'an inference id where there is one, else the event id',
      'event_id,inference_id,label\ne,i,1\nf,,2\n',
      ['i=1', 'f=2'],
    ],
    ['endings of Windows, and no last one', 'id,label\r\na,1\r\nb,2', ['a=1', 'b=2']],
    ['quoted commas, quotes and lines', 'id,label\n"a","x, ""y""\n\nz"\nb,2\n', ['a="x, \\"y\\"\\n\\nz"', 'b=2']],
    ['a quoted number', 'id,label\na,"007"\n', ['a="007"']],
    ['a quote in a cell', 'id,label\na,5" nail\nb,6" nail\n', ['a="5\\" nail"', 'b="6\\" nail"']],
    ['too few cells', 'id,label\na\nb,2\n', ['2:ImpossibleLabel', 'b=2']],
    ['an empty id', 'id,label\n,1\nb,2\n', ['2:NotALabel', 'b=2']],
    ['text behind a quote', 'id,label\n"a"x,1\nb,2\n', ['"a"x=1', 'b=2']],
    ['a quote that is not closed at the end', 'id,label\na,1\nb,"2\nc,3\n', ['a=1', '3:CutOff', 'c=3']],
    ['no lines', 'id,label\n', []],
    ['nothing', '', []],
  ])('%s', async (_, content, expected) => {
    for (const pieces of [1, 7, 1_000]) expect(brief(await csv(content, { pieces }))).toEqual(expected);
  });

  test('a quote that is never closed costs its line alone', async () => {
    const lines = Array.from({ length: 300 }, (_, n) => (n === 20 ? 'b,"2' : `id-${n},1`));
    const items = await csv(`id,label\n${lines.join('\n')}\n`, { pieces: 1_000 });
    expect(items).toHaveLength(300);
    expect(items.filter((item) => !('id' in item))).toMatchObject([{ line: 22, name: 'UnclosedQuote' }]);
  });

  test('lines equal those of the file', async () => {
    const items = await csv('id,label\n\na,"x\ny"\n\nb,2\nc\n');
    expect(items.map(({ line }) => line)).toEqual([3, 6, 7]);
  });

  test.each([
    ['NoIdColumn', 'date,label\n1,2\n', 'columns date, label'],
    ['NoIdColumn', '{"id":"a","label":1}\n', 'columns {"id":"a", "label":1}'],
    ['NoLabelColumn', 'id;date\n1;2\n', 'columns id, date'],
  ])('%s', async (name, content, got) => {
    await expect(csv(content)).rejects.toMatchObject({ name, message: expect.stringContaining(`got: ${got}`) });
  });

  // Without spaces: of a line of spaces in a quoted text, the line is kept and not the spaces.
  const CELL = fc.string({
    unit: fc.constantFrom('a', '"', ',', '\n', 'é', '\u2028', ';'),
    minLength: 1,
    maxLength: 8,
  });
  const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`;

  test('texts that are quoted as CSV wants are as they were', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(CELL, { minLength: 1 }), fc.integer({ min: 1, max: 9 }), async (texts, pieces) => {
        const rows = texts.map((text, n) => `id-${n},${quoted(`x${text}x`)},${quoted(text)}\n`);
        const items = await csv(`id,label,note\n${rows.join('')}`, { pieces });
        expect(items.map((item) => ('id' in item ? item.value : item))).toEqual(texts.map((text) => `x${text}x`));
      }),
    );
  });

  test('whatever a file contains, each line is at most one label or fault', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(CELL), fc.boolean(), async (cells, isCsv) => {
        const content = `${isCsv ? 'id,label\n' : '{"id":"a","label":1}\n'}${cells.join('')}`;
        const items = await read(content, { name: isCsv ? 'f.csv' : 'f.json' });
        expect(new Set(items.map(({ line }) => line)).size).toBe(items.length);
      }),
    );
  });
});

describe('encodings', () => {
  const text = 'id,label\nä,1\n';
  const utf16 = Buffer.from(`\ufeff${text}`, 'utf16le');

  test.each([
    ['UTF-8 with a mark', Buffer.from(`\ufeff${text}`)],
    ['UTF-16, little endian', utf16],
    ['UTF-16, big endian', Buffer.from(utf16).swap16()],
    ['gzip', gzipSync(text)],
  ])('%s', async (name, bytes) => {
    for (const pieces of [1, 3, 1_000]) {
      expect(brief(await csv(bytes, { pieces, name: name === 'gzip' ? 'f.CSV.gz' : 'f.csv' }))).toEqual(['ä=1']);
    }
  });

  test('UTF-16 without a mark, and no text at all, are named', async () => {
    const named = { name: 'NotUtf8' };
    await expect(csv(Buffer.from(text, 'utf16le'))).rejects.toMatchObject(named);
    await expect(read(Buffer.from([0, 1, 2, 3]))).rejects.toMatchObject(named);
  });

  test('of Latin-1, the lines with other characters are faults', async () => {
    expect(brief(await csv(Buffer.from('id,label\na,1\nä,2\nb,3\n', 'latin1')))).toEqual(['a=1', '3:NotUtf8', 'b=3']);
  });

  test('gzip that was cut has the labels before the cut; other bytes are named', async () => {
    const lines = Array.from({ length: 9_000 }, (_, n) => `{"id":"id-${n}","label":${Math.sin(n)}}\n`);
    const bytes = gzipSync(lines.join(''));
    const items = await read(bytes.subarray(0, bytes.length / 2), { name: 'f.jsonl.gz', pieces: 65_536 });
    const labels = items.filter((item) => 'id' in item);
    expect(labels.length).toBeGreaterThan(1_000);
    expect(items.slice(labels.length)).toMatchObject([{ line: labels.length + 1, name: 'CutOff' }]);
    await expect(read('id,label\n', { name: 'f.csv.gz' })).rejects.toMatchObject({ name: 'NotGzip' });
  });
});

test.each([
  ['numbers', { kind: 'numbers' }, [1, '2.5', true], ['cat', '']],
  ['classes', { classes: ['cat', '1'] }, ['cat', ' cat', 1, '1.0', true], ['dog', 0]],
  ['texts', { kind: 'texts', classes: ['a', 'b'] }, ['Infinity', 'anything'], ['']],
] as const)('values that the settings rule out are impossible: %s', async (_, settings, possible, impossible) => {
  const lineOf = (label: unknown) => `${JSON.stringify({ id: 'a', label })}\n`;
  const items = await read([...possible, ...impossible].map(lineOf).join(''), { settings: settings as never });
  expect(items.map((item) => 'id' in item)).toEqual([...possible.map(() => true), ...impossible.map(() => false)]);
  // What people answer to a scorer's question has values of its own.
  expect(await read('{"id":"a","label":"dog","scorer":"s"}\n', { settings: settings as never })).toMatchObject([
    { value: 'dog' },
  ]);
});
