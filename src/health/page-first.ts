/**
 * The first screen of the page: the state of the endpoint, replies to read, each finding with its course in time, and
 * next steps.
 */

import { many, time } from '../core/text/figure-text.ts';
import { drawing, escapeHtml, isolated, pageHtml } from '../core/text/html-page.ts';
import { type Page, sheet } from '../core/text/page.ts';
import { bothEnds, excerpt } from '../core/text/terminal-text.ts';
import type { TimeWindow } from '../quality/counts-store.ts';
import { windowText } from '../quality/rates-text.ts';
import { endOfHour, type Finding, type Health } from './findings.ts';
import { hourText, isFinding, SIGNS, signOf } from './known.ts';
import { grid } from './page-charts.ts';
import STATES from './states.json' with { type: 'json' };

/** A bad reply, with words of its capture. */
export interface ReplyToRead {
  severity: string;
  /** Number of equal replies. */
  count: number;
  /** The scorers that it fails, and why. */
  failing: readonly { scorer: string; rationale: string }[];
  request: string;
  reply: string;
  /** ISO 8601. */
  time: string;
  variant: string;
  /** MLflow's page of its trace. */
  url?: string | undefined;
}

/** Maximum number that fits a screen: findings with a chart, findings without a chart, and replies. */
export const MAX_CARDS = 3;
/** Characters of a request, a reply or a reason. */
const MAX_WORDS = 120;

/** A color for each state. The sign and the words also show the state. */
const CLASSES: Readonly<Record<string, string>> = STATES.classes;

/**
 * @param recent the window that the state covers
 * @param chartOf returns nothing for a finding without a course in time
 * @param worst the gravest first; absent: no words were read
 */
export function firstScreen(
  { state, words, findings, toRead }: Health,
  recent: TimeWindow,
  chartOf: (finding: Finding) => string,
  worst?: readonly ReplyToRead[],
): Page {
  const found = findings.filter((one) => isFinding(one.state)).map((finding) => ({ finding, drawn: chartOf(finding) }));
  // Findings of the same kind as the worst finding come first.
  const kinds = [...Map.groupBy(found, ({ drawn }) => drawn !== '').values()].map((some) => some.slice(0, MAX_CARDS));
  const shown = kinds.flat();
  const others = findings.filter((one) => !shown.some(({ finding }) => finding === one));
  const of = `<span class="soft">${many(found.length, 'finding')} of ${windowText(recent)}</span>`;
  const said = found.length === 0 ? isolated(words) : `<b>${state}:</b> ${of}`;
  const rows = others.map((one) => [
    drawing(stateOf(one)),
    one.message,
    drawing(unbroken(time(one.asOf))),
    drawing(codeOf(one)),
  ]);
  const first = pageHtml([
    drawing(`<p class="state ${CLASSES[state] ?? ''}">${SIGNS[state]} ${said}</p>`),
    grid('Replies to read', worst?.slice(0, MAX_CARDS).map(replyCard) ?? toRead.map(toReadCard)),
    grid('Findings', ...kinds.map((some) => some.map(findingCard))),
  ]);
  return [
    drawing(`<div class="first">${first}\n</div>`),
    sheet(found.length === 0 ? 'Findings' : 'Other findings', '', ['state', 'finding', 'as of', 'next'], rows),
  ];
}

/** Keeps the content on one line. */
const unbroken = (html: string, kind = ''): string => `<span class="time ${kind}">${html}</span>`;

function stateOf(finding: Finding): string {
  const [sign, word] = signOf(finding);
  return unbroken(`${sign} ${word}`, CLASSES[word]);
}

const codeOf = ({ command }: Pick<Finding, 'command'>): string =>
  // No line ends between the hyphens of an option and its name.
  command === undefined ? '' : `<code>${escapeHtml(command).replace(/--\w/g, unbroken('$&'))}</code>`;

// ----------------------------------------------------------------------------------------------------------- cards

const card = (kind: string, ...parts: readonly string[]): string => `<div class="card ${kind}">${parts.join('')}</div>`;

const nextText = (one: Pick<Finding, 'command'>): string =>
  one.command === undefined ? '' : `<p>Next: ${codeOf(one)}</p>`;

const findingCard = ({ finding, drawn }: { finding: Finding; drawn: string }): string =>
  card(
    CLASSES[finding.state] ?? '',
    `<p>${stateOf(finding)} <span class="soft">as of ${hourText(finding.asOf)}</span></p>`,
    drawn,
    `<p>${isolated(finding.message)}</p>`,
    nextText(finding),
  );

export function replyCard({ count, severity, failing, request, reply, time: at, variant, url }: ReplyToRead): string {
  const part = (name: string, text: string): string =>
    text === '' ? '' : `<p><span class="soft">${name}</span> ${isolated(excerpt(text, MAX_WORDS))}</p>`;
  const fails = `${count > 1 ? `${count} × ` : ''}${severity}: ${failing.map(({ scorer }) => scorer).join(', ')}`;
  const asked = bothEnds(request, MAX_WORDS - 1);
  const when = unbroken(time(at));
  const link = url === undefined ? when : `<a href="${escapeHtml(url)}">${when}</a>`;
  return card(
    '',
    `<p><b>${isolated(fails)}</b> <span class="soft">${link} ${isolated(variant)}</span></p>`,
    ...[part('Asked', asked), part('Replied', reply), part('The judge', failing[0]?.rationale ?? '')],
  );
}

const toReadCard = (one: Health['toRead'][number]): string =>
  card(
    '',
    `<p><b>${isolated(one.scorer)}</b>: ${many(one.count, 'reply', 'replies')}, ${hourText(one.first)} to ${hourText(endOfHour(one))}</p>`,
    nextText(one),
  );
