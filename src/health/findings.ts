/**
 * Combines the findings of all rules into a state: the only place that calls an endpoint healthy. docs/status.md lists
 * the rules.
 */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import { many } from '../core/text/figure-text.ts';
import { singleLine } from '../core/text/terminal-text.ts';
import { sum } from '../core/values/sum.ts';
import type { ScorerOutcomes } from '../quality/outcomes.ts';
import type { HealthFacts } from './facts.ts';
import type { ToRead } from './history.ts';
import { type Found, type HealthState, hourText, isFinding, type Known, knownOf, STATES } from './known.ts';
import { NOT_IN_QUARANTINE, OPERATION_RULES } from './operation-rules.ts';
import { QUALITY_RULES } from './quality-rules.ts';

const { captures, ...others } = OPERATION_RULES;
const RULES = { captures, ...QUALITY_RULES, ...others };
/** Reasons in the first line. */
const MAX_REASONS = 3;
/** Rules that need a request, and its subject for messages. The other rules use the counts. */
const ASKED: Record<string, string> = { 'run-failed': 'failed runs', alarm: 'alarms', budget: "today's budget" };

export interface Finding extends Found {
  /** The rule. Names do not change between versions. */
  name: keyof typeof RULES;
  asOf: string;
}

export interface Health {
  state: HealthState;
  /** The state and why, in one line. */
  words: string;
  /** The worst first. */
  findings: Finding[];
  /** Failing verdicts on harm in the last seven days, in any state. */
  toRead: readonly (ToRead & { command: string })[];
  /** Outcomes of the captures of the window, by scorer. */
  outcomes: readonly ScorerOutcomes[];
}

export const FINDING_NAMES = Object.keys(RULES);

/**
 * Returns the findings of all rules, worst first, and the state of the endpoint.
 *
 * @example
 *     const { state, findings } = healthOf(await readFacts(stack, { window, nowMs: Date.now() }));
 */
export function healthOf(facts: HealthFacts): Health {
  const known = knownOf(facts);
  const found = Object.entries(RULES).flatMap(([name, rule]) => {
    const [why, what] = [facts.unasked?.[name], ASKED[name]];
    const asOf = what === undefined ? known.asOf : known.now;
    const message = `could not ask about ${what ?? name}: ${singleLine(why ?? '')}`;
    const doctor = { state: 'could not ask', message, command: known.command('doctor') } as const;
    const own: Found[] = why === undefined ? rule(known) : [doctor];
    const isShown = ({ state }: Found): boolean => isFinding(state) || name === 'quarantine';
    return own.map((one) => ({ name, asOf, ...one, command: isShown(one) ? one.command : undefined }) as Finding);
  });
  const findings = STATES.flatMap((state) => found.filter((one) => one.state === state));
  const state = findings[0]?.state ?? 'too little to tell';
  // The line lists bad findings first, then those that need a look. For a healthy endpoint, it begins with the excluded
  // changes.
  const reasons = findings
    .filter((one) => one.state === state || (state === 'bad' && one.state === 'needs a look'))
    .toSorted((a, b) => Number(b.name === 'excluded') - Number(a.name === 'excluded'));
  const texts = reasons.slice(0, MAX_REASONS).map(({ message }) => message);
  if (reasons.length > texts.length) texts.push(`${reasons.length - texts.length} more`);
  const toRead = known.toRead.map((one) => ({ ...one, command: readCommand(one, known) }));
  const words = `${state}: ${[...texts, ...besides(found, texts, toRead)].join('; ')}`;
  return { state, words, findings, toRead, outcomes: known.outcomes };
}

/** Returns the parts of the first line that appear in any state: replies to read, and lines in quarantine. */
function besides(found: readonly Finding[], said: readonly string[], toRead: readonly ToRead[]): string[] {
  const count = sum(toRead.map((one) => one.count));
  const [first = ''] = toRead.map((one) => one.first).toSorted();
  const [last = ''] = toRead.map((one) => endOfHour(one)).toSorted((a, b) => (a < b ? 1 : -1));
  const names = toRead.map(({ scorer }) => scorer).join(', ');
  const read = (): string =>
    `${many(count, 'reply', 'replies')} to read: ${names}, ${hourText(first)} to ${hourText(last)}`;
  const lines = found.filter(({ name, message }) => name === 'quarantine' && message !== NOT_IN_QUARANTINE);
  const kept = lines.map(({ message }) => message).filter((message) => !said.includes(message));
  return [...(count > 0 ? [read()] : []), ...kept];
}

export const endOfHour = ({ last }: ToRead): string => new Date(Date.parse(last) + HOUR_MS).toISOString();

const readCommand = (one: ToRead, { command }: Known): string =>
  command('worst', '--scorer', one.scorer, '--from', one.first, '--to', `${endOfHour(one).slice(0, 16)}Z`);
