/** Detects personal data in a request or a reply. */

import { Forms, find, type Item, merged } from '../../../captures/redact/find.ts';
import type { Kind } from '../../../captures/redact/kinds.ts';
import { messageText, replyTexts, requestTexts } from '../../../captures/reply-text.ts';
import { codeScorer } from './code-scorer.ts';

interface Finding {
  kind: 'e-mail address' | 'phone number' | 'card number' | 'IBAN' | 'US social security number';
  /** The personal data itself, for comparison only. Never log it. */
  match: string;
  /** The form that may be shown. */
  masked: string;
}

/** Request and reply are each read up to this length. 2 million characters are about 500,000 tokens, more than most models read. */
const MAX_CHARS = 2_000_000;

/**
 * The kinds of data that the scorer reports, in the order of its rationale, with their names and the part that may be
 * shown.
 */
const NAMES = {
  email: ['e-mail address', (value) => `***@***${value.slice(value.lastIndexOf('.'))}`],
  iban: ['IBAN', (value) => `${value.slice(0, 2)}***`],
  card: ['card number', (value) => `***${value.slice(-4)}`],
  ssn: ['US social security number', () => '***-**-****'],
  phone: ['phone number', (value) => `***${value.slice(-2)}`],
} satisfies Partial<Record<Kind, [Finding['kind'], (value: string) => string]>>;
const KINDS = Object.keys(NAMES) as (keyof typeof NAMES)[];
const FORMS = new Forms(KINDS);

/**
 * Returns each item of personal data in the text once, by kind and position. @param masked items that masking found, if
 * known
 */
export function findPii(whole: string, masked?: readonly Item[]): Finding[] {
  const found = new Map<string, Finding>();
  const items = masked ? withinOthers(whole, masked) : find(whole.slice(0, MAX_CHARS), FORMS);
  const kindOf = ({ name }: Item): number => KINDS.indexOf(name as (typeof KINDS)[number]);
  for (const { name, value } of items.toSorted((a, b) => kindOf(a) - kindOf(b) || a.start - b.start)) {
    const [kind, mask] = NAMES[name as keyof typeof NAMES];
    found.set(`${kind} ${value}`, { kind, match: value, masked: mask(value) });
  }
  return [...found.values()];
}

/**
 * Returns the items of the scorer's kinds, including items inside items of other kinds, such as the mail address in a
 * password.
 */
function withinOthers(whole: string, masked: readonly Item[]): Item[] {
  const { own = [], others = [] } = Object.groupBy(
    masked.filter(({ end }) => end <= MAX_CHARS),
    ({ name }) => (name in NAMES ? 'own' : 'others'),
  );
  return others.length === 0
    ? own
    : [...own, ...find(whole.slice(0, MAX_CHARS), FORMS, [], merged(others.map((item) => ({ ...item }))))];
}

function describe(side: string, findings: Finding[]): string {
  const byKind = Map.groupBy(findings, ({ kind }) => kind);
  const parts = [...byKind].map(([kind, list]) => {
    const shown = list.slice(0, 3).map(({ masked }) => masked);
    return `${list.length} ${kind}${list.length === 1 ? '' : kind.endsWith('s') ? 'es' : 's'} (${shown.join(', ')}${list.length > 3 ? ', …' : ''})`;
  });
  return `${side}: ${parts.join(', ')}`;
}

export const piiDetected = codeScorer('pii_detected', {
  fails: true,
  bounds: [],
  score(capture) {
    if (capture.error !== undefined) return { notJudgeable: 'errorReply' };
    const messages = capture.conversation?.messages ?? [];
    const piiIn = (text: string): Finding[] => {
      const whole = capture.unmask?.(text) ?? text;
      return findPii(whole, capture.found?.(whole, KINDS));
    };
    const isSystem = (role: string) => role === 'system' || role === 'developer';
    const known = new Set(
      messages
        .filter(({ role }) => isSystem(role))
        .flatMap((message) => piiIn(messageText(message)))
        .map(({ match }) => match),
    );
    const asked =
      capture.conversation && !capture.wordless
        ? messages.filter(({ role }) => !isSystem(role)).map(messageText)
        : textsOf(requestTexts(capture));
    const answered = textsOf(replyTexts(capture));
    if (asked === undefined && answered === undefined) return { notJudgeable: 'notText' };
    const unknown = (texts: string[] | undefined) =>
      piiIn((texts ?? []).join('\n')).filter(({ match }) => !known.has(match));
    const sides = [
      { side: 'request', findings: unknown(asked) },
      { side: 'reply', findings: unknown(answered) },
    ].filter(({ findings }) => findings.length > 0);
    if (sides.length === 0) return { value: false };
    return { value: true, rationale: sides.map(({ side, findings }) => describe(side, findings)).join('; ') };
  },
});

const textsOf = (found: { texts: string[] } | { notJudgeable: string }): string[] | undefined =>
  'texts' in found ? found.texts : undefined;
