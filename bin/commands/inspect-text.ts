/** The reports of `inspect` as text, for terminals of any width. */

import { stringify } from 'yaml';
import { many, whole } from '../../src/core/text/figure-text.ts';
import { namedCounts, singleLine, type TextOptions } from '../../src/core/text/terminal-text.ts';
import { CAPTURE_FILES } from '../../src/replay/source/open-source.ts';
import { dollars, instantText, megabytes, Page } from '../cli/output.ts';
import type { Place } from '../offline/capture-files.ts';
import type { InspectReport, LineReport } from '../offline/inspect.ts';

export const placeText = ({ file, line }: Place): string => `${singleLine(file)}:${line}`;

/** Counts by name, the largest first. */
export const countsText = (counts: Readonly<Record<string, number>>): string =>
  namedCounts(counts, Number.POSITIVE_INFINITY);

export function inspectText(report: InspectReport, out: TextOptions): string {
  const page = new Page(out);
  const { files, bytes, gzip, lines, captures, duplicates, times } = report;
  const quarantined = report.quarantined.reduce((sum, { count }) => sum + count, 0);
  page.add(`${many(files, 'file')}, ${megabytes(bytes)}, ${many(lines, 'line')}`, 'bold');
  page.add(`${many(captures, 'capture')}, ${many(duplicates, 'duplicate')}, ${whole(quarantined)} quarantined`);
  if (times) page.add(`captured ${instantText(times.first)} to ${instantText(times.last)} UTC`);
  if (gzip > 0)
    page.add(`${many(gzip, 'file')} compressed or named *.gz: the stack reads only uncompressed *.jsonl`, 'red');
  if (captures === 0) page.add(`No line is a capture. Expected: ${CAPTURE_FILES}.`, 'red');
  for (const { file, message } of report.unreadable) page.add(`${file}: ${message}`, 'red');
  if (quarantined > 0) page.section('Quarantined');
  for (const { name, count, at } of report.quarantined) {
    page.add(`  ${name}: ${whole(count)}`, 'red');
    for (const place of at) page.add(`    ${placeText(place)}: ${place.message}`);
    if (count > at.length) page.add(`    … and ${whole(count - at.length)} more`);
  }
  addRedacted(page, report);
  addShape(page, report);
  addContent(page, report);
  addJudging(page, report);
  return page.text();
}

function addRedacted(page: Page, { redacted }: InspectReport): void {
  if (redacted === undefined) return;
  const { captures, items, lines } = redacted;
  page.section(`Masked in ${many(captures, 'capture')}${captures > 0 ? `: ${countsText(items)}` : ''}`);
  for (const line of lines) page.add(`  ${placeText(line)}: … ${singleLine(line.text)} …`);
}

function addShape(page: Page, { shape: { captures, facts } }: InspectReport): void {
  if (facts.length > 0) page.section(`What ${many(captures, 'capture is', 'captures are')} like`);
  for (const { says, setting } of facts) {
    page.add(`  ${says}`);
    if (setting !== undefined) page.add(`    → set ${setting}`);
  }
}

function addContent(page: Page, { models, usage, notes }: InspectReport): void {
  const named = countsText(models);
  if (named !== '') page.add(`  models: ${named}`);
  const { captures, inputTokens, outputTokens } = usage;
  if (captures > 0) {
    page.add(
      `  tokens: ${whole(inputTokens)} in, ${whole(outputTokens)} out, as ${many(captures, 'capture')} report them`,
    );
  }
  if (notes.length > 0) page.section('Notes on the traces');
  for (const { note, count, at } of notes) page.add(`  ${whole(count)} × ${note} (${at.slice(0, 1).map(placeText)})`);
}

function addJudging(page: Page, { captures, scorers, cost }: InspectReport): void {
  if (captures === 0) return;
  page.section('What can be judged, of captures');
  const width = Math.max(...scorers.map(({ name }) => name.length));
  for (const { name, kind, captures: judged, not } of scorers) {
    const others = countsText(not);
    page.add(
      `  ${singleLine(name).padEnd(width)}  ${whole(judged)}${kind === 'code' ? ' by code' : ''}${others === '' ? '' : `; not: ${others}`}`,
    );
  }
  page.section(`Judging costs about ${dollars(cost.usd)}`);
  page.add(
    `  ${whole(cost.judgedCaptures)} of ${many(cost.captures, 'capture')}, ${many(cost.judgeCalls, 'call')}, ${whole(cost.inputTokens)} tokens in, ${whole(cost.outputTokens)} out`,
  );
  page.add(`  ${cost.basis}`);
}

/** Longer texts, lists and objects are cut in the view of a line; `--json` has all of them. */
const MAX_CHARS = 2_000;
const MAX_ITEMS = 50;
const MAX_DEPTH = 20;

function shortened(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') {
    return value.length > MAX_CHARS
      ? `${value.slice(0, MAX_CHARS)}… (${whole(value.length - MAX_CHARS)} characters more)`
      : value;
  }
  if (value === null || typeof value !== 'object') return value;
  if (depth >= MAX_DEPTH) return '… (deeper)';
  const more = (count: number): string[] => (count > MAX_ITEMS ? [`… (${whole(count - MAX_ITEMS)} more)`] : []);
  if (Array.isArray(value)) {
    return [...value.slice(0, MAX_ITEMS).map((item) => shortened(item, depth + 1)), ...more(value.length)];
  }
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  const kept = entries.slice(0, MAX_ITEMS).map(([name, item]) => [name, shortened(item, depth + 1)] as const);
  return Object.fromEntries([...kept, ...more(entries.length).map((text) => ['…', text] as const)]);
}

/** Adds a value in YAML. */
function addValue(page: Page, title: string, value: unknown): void {
  page.section(title);
  const lines = stringify(shortened(value), { lineWidth: 0, aliasDuplicateObjects: false }).trimEnd().split('\n');
  for (const line of lines) page.add(`  ${line}`);
}

export function lineText(report: LineReport, out: TextOptions): string {
  const page = new Page(out);
  page.add(placeText(report), 'bold');
  const { quarantined, trace, format, wireFormat, notes = [] } = report;
  if (quarantined !== undefined) page.add(`quarantined: ${quarantined.name}: ${quarantined.message}`, 'red');
  if (trace === undefined) return page.text();
  const { name, state, startTimeMs, tags, spans, tokenUsage, clientRequestId, sessionId, userId, model } = trace;
  const [root, ...children] = spans;
  const facts = { format, wireFormat, model, clientRequestId, sessionId, userId };
  page.add(`${name}: ${state}, ${instantText(new Date(startTimeMs).toISOString())} UTC`);
  if (root?.status.message !== undefined) page.add(`  ${root.status.message}`, 'red');
  for (const [fact, value] of Object.entries(facts)) if (value !== undefined) page.add(`  ${fact}: ${value}`);
  for (const note of notes) page.add(`  note: ${note}`);
  if (root?.inputs !== undefined) addValue(page, 'Inputs', root.inputs);
  if (root?.outputs !== undefined) addValue(page, 'Outputs', root.outputs);
  if (tokenUsage !== undefined) addValue(page, 'Tokens', tokenUsage);
  addValue(page, 'Tags', tags);
  addValue(page, `Attributes of the ${root?.spanType} span`, root?.attributes ?? {});
  if (children.length > 0) {
    addValue(
      page,
      `${many(children.length, 'child span')}`,
      children.map(({ name: child, inputs, outputs }) => ({ name: child, inputs, outputs })),
    );
  }
  addScorers(page, report);
  return page.text();
}

function addScorers(page: Page, { scorers = {}, judgeUsd = 0 }: LineReport): void {
  const all = Object.entries(scorers);
  const can = all.filter(([, reason]) => reason === null).map(([name]) => name);
  page.section(`Can be judged by ${many(can.length, 'scorer')}, for about ${dollars(judgeUsd)}`);
  if (can.length > 0) page.add(`  ${can.join(', ')}`);
  for (const reason of new Set(all.flatMap(([, why]) => why ?? []))) {
    const names = all.filter(([, why]) => why === reason).map(([name]) => name);
    page.add(`  ${reason}: not ${names.join(', ')}`);
  }
}
