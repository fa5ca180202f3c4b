/** How a page is drawn, on terminals of several widths and for a pipe. */
import {
  bold,
  exact,
  facts,
  firstOf,
  green,
  type Page,
  pageText,
  red,
  section,
  table,
} from '../../../../src/core/text/page.ts';
import { PLAIN } from '../../../../src/core/text/terminal-text.ts';

const CONTROL = '\u001b]0;owned\u0007\u009b31m\u202e\nnext';
const COMMAND = `inference-monitor show ${'a-run '.repeat(40)}`;
const HEAD = ['run', 'lines', 'asked'];
const ROWS = [
  ['a-long-name', '1,234', 'all captures of the last week, again'],
  ['b', '7', ''],
];
const ALL: Page = [
  bold(`A text that is longer than a terminal of forty columns, and ${CONTROL}`),
  ['below it', ['and below that, with more words than fit into a line of forty columns']],
  facts({ sent: 0, shape: false, time: null, skipped: 'NotJson 1' }),
  section('Quarantined', ...firstOf(1, ['one', 'two'], ' files', 3)),
  section('Failed', red(undefined), table([], HEAD), [[]], section('', false)),
  section('Runs', section('', table(ROWS, HEAD))),
  section('', exact(COMMAND)),
];

test('a pipe gets each text in one line, and what is empty is left out', () => {
  expect(pageText(ALL)).toBe(
    [
      'A text that is longer than a terminal of forty columns, and ]0;owned 31m next',
      '  below it',
      '    and below that, with more words than fit into a line of forty columns',
      'sent: 0',
      'skipped: NotJson 1',
      '',
      '── Quarantined ──',
      'one',
      'and 2 more files',
      '',
      '── Runs ──',
      'run          lines  asked',
      'a-long-name  1,234  all captures of the last week, again',
      'b                7',
      '',
      COMMAND,
      '',
    ].join('\n'),
  );
  expect(pageText([section('First', 'text')])).toBe('── First ──\ntext\n');
  expect(pageText([section('First'), ''])).toBe('');
});

test.each([40, 80, 200])('in %d columns, lines are broken between words, and nothing is lost', (width) => {
  const text = pageText(ALL.slice(0, -1), { width, style: PLAIN });
  expect(text.split('\n').filter((line) => line.length > width)).toEqual([]);
  const words = (of: string): string[] => of.split(/\s+/).sort();
  expect(words(text)).toEqual(words(pageText(ALL.slice(0, -1))));
  // A command is not broken, so that it can be copied.
  expect(pageText(ALL, { width, style: PLAIN }).split('\n')).toContain(COMMAND);
});

describe('a table that does not fit', () => {
  const drawn = (width: number, head = HEAD, rows = ROWS) => pageText([table(rows, head)], { width, style: PLAIN });

  test('breaks its last column between words', () => {
    expect(drawn(40)).toMatch(/^a-long-name {2}1,234 {2}all captures of the\n {20}last week, again\nb +7\n$/m);
  });

  test('has the columns without room below each row, and a long first one too', () => {
    expect(drawn(30)).toMatch(/^a-long-name {2}1,234\n {2}asked all captures of the\n {4}last week, again\nb +7\n$/m);
    expect(drawn(20)).toMatch(/^lines\n1,234\n {2}a-long-name, asked\n {4}all captures of/);
    const path = ['p'.repeat(25), '1', '2'];
    expect(drawn(30, ['file', 'lines', 'joined'], [path])).toBe(`lines  joined\n    1       2\n  ${path[0]}\n`);
    expect(drawn(20, [], [['x', 'y'.repeat(30)]])).toBe(`x\n  ${'y'.repeat(30)}\n`);
  });
});

test('texts, rows and headings have their styles, in each of their lines', () => {
  const out = { width: 14, style: (style: string, text: string) => `<${style}>${text}` };
  const page = [red('some words to break'), section('A', table([green(['1']), ['2']], ['n']))];
  expect(pageText(page, out)).toBe('<red>some words to\n<red>  break\n\n<bold>── A ──\n<bold>n\n<green>1\n2\n');
});
