/** The first screen of the page, of endpoints in different states. */
import { makePage } from '../../../src/health/make-page.ts';
import { askedStackIn, GOOD, type Situation, useAskedStack } from '../../helpers/asked-stack.ts';
import { HOUR_MS, NOW_MS } from '../../helpers/example-month.ts';

useAskedStack();

const scored = (scorer: string, yes: number, no: number) => ({
  ...GOOD,
  scorers: { ...GOOD.scorers, [scorer]: { 0.25: { captures: 40, values: { yes, no } } } },
});
const HOSTILE = '<script>alert(1)</script>';
const ERRORS = { ...GOOD, errorReplies: 30, errorKinds: { [HOSTILE]: 30 } };
const FAILED = { name: 'files-7', status: 'FAILED', ago: 3 } as const;
const REPLY = {
  ...{ severity: 'harm', count: 2, failing: [{ scorer: 'safety', rationale: 'No.' }], variant: HOSTILE },
  ...{ request: 'How?', reply: HOSTILE.repeat(9), time: '2026-11-30T11:20:00Z' },
};
const lately = (hours: number, cell: object, variant = 'blue'): Situation => ({
  hour: (ago) => ({ blue: GOOD, [variant]: ago < hours ? { ...GOOD, ...cell } : GOOD }),
});
const HARM = lately(1, scored('safety', 9, 1));
const toMs = NOW_MS + (2 * HOUR_MS) / 3;

/** A line is a heading or a card. */
test.each<[string, Situation, number, RegExp]>([
  ['all is well', {}, 0, /^✓ healthy: no scorer is 11 points worse in 24 hours.*$/],
  [
    'no captures',
    { hours: 0 },
    0,
    /^· too little to tell: 2 findings of .*\nFindings\n· .* 0 captures, .*\n· .* falls are .*$/,
  ],
  [
    'one variant of two has fallen',
    lately(30, scored('fluency', 4, 6), 'green'),
    0,
    /^! .*\nFindings\n! .* CHART fluency: 40.0% good .* variant green; since about .* Next: .* worst .*\n! .* CHART variant green is worse .*\n· .* CHART .*$/,
  ],
  [
    'harm, by its counts',
    HARM,
    0,
    /^✓ .*\nReplies to read\nsafety: 1 reply, 11-30 12:00 to 11-30 13:00 Next: .* worst .*$/,
  ],
  [
    'harm, by its words',
    HARM,
    4,
    /^✓ .*\nReplies to read(\n2 × harm: safety .* Replied &#60;script.*… The judge No\.){3}$/,
  ],
  [
    'what has no course in time, beside what has',
    { ...lately(3, ERRORS), ran: [FAILED] },
    0,
    /^✗ bad: 2 findings .*\nFindings\n✗ .* CHART 37.5% .* are error replies .*\n✗ [^C]* run files-7 failed .*$/,
  ],
])('%s', async (_, situation, read, expected) => {
  const worst = read > 0 ? Array(read).fill(REPLY) : undefined;
  const query = { window: { fromMs: toMs - 30 * 24 * HOUR_MS, toMs }, nowMs: NOW_MS, worst };
  const { html } = await makePage(await askedStackIn(situation), query);
  expect(html).not.toContain('<script');
  const [first = ''] = html.slice(html.indexOf('<div class="first">')).split('\n</div>\n');
  const marked = first
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/<svg.*?<\/svg>/g, 'CHART')
    .replaceAll(/<div class="card|<h2>/g, '\n$&');
  const text = marked.replaceAll(/<\/?(span|b|bdi|code)\b[^>]*>/g, '').replaceAll(/<[^>]*>/g, ' ');
  expect(
    text
      .replaceAll(/ +/g, ' ')
      .replaceAll(/ ?\n ?/g, '\n')
      .trim(),
  ).toMatch(expected);
});
