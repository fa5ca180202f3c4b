/** A gate as JUnit XML, which CI servers show as a test report with a test case per threshold. */
import { cut } from '../../../captures/trace/text.ts';
import { escapeHtml } from '../../../core/text/html-page.ts';
import { factsOf, observedText, outcomeText } from '../texts.ts';
import type { GateResult, ThresholdResult } from '../types.ts';

/** Longer texts are cut: names of runs and reasons are sentences. */
const MAX_CHARS = 2_000;

const NOT_XML = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;

/** XML 1.0 has no way to write most control characters, nor half a surrogate pair. */
const xmlText = (text: string): string => escapeHtml(cut(text, MAX_CHARS).replace(NOT_XML, '\ufffd'));

/** A line break in an attribute would be read as a space anyway. */
const attribute = (name: string, value: string | number): string =>
  ` ${name}="${xmlText(String(value).replace(/[\t\r\n]+/g, ' '))}"`;

const property = (name: string, value: string): string =>
  `<property${attribute('name', name)}${attribute('value', value)}/>`;

/** A failure is an assertion that does not hold; an error is a test that could not be carried out. */
function testCase(result: ThresholdResult, suite: string): string {
  const { threshold, outcome, counts, reason } = result;
  const facts = Object.entries(factsOf(result)).map(([name, fact]) => `${name}: ${fact}`);
  const details = xmlText(facts.join('\n'));
  const message = attribute('message', `${outcomeText(result)}: ${reason}`);
  const inner = {
    passed: `<system-out>${details}</system-out>`,
    failed: `<failure type="ThresholdFailed"${message}>${details}</failure>`,
    'cannot-tell': counts === false ? `<skipped${message}/>` : `<error type="CannotTell"${message}>${details}</error>`,
  };
  return `<testcase${attribute('classname', suite)}${attribute('name', threshold)} time="0">${inner[outcome]}</testcase>`;
}

/**
 * Returns the document. A failed threshold becomes a failure. A threshold that cannot be decided becomes an error of
 * type `CannotTell`, because CI servers show a skipped test as harmless.
 *
 * @param before name of the first run
 */
export function junitXml(
  { thresholds, observed, content }: GateResult,
  { before, after }: { before: string; after: string },
): string {
  const count = (outcome: ThresholdResult['outcome']): number =>
    thresholds.filter((result) => result.outcome === outcome && result.counts !== false).length;
  const skipped = thresholds.filter(({ counts }) => counts === false).length;
  const totals =
    attribute('tests', thresholds.length) +
    attribute('failures', count('failed')) +
    attribute('errors', count('cannot-tell'));
  const name = attribute('name', `${after} compared with ${before}`);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites${name}${totals} time="0">`,
    `<testsuite${name}${totals} skipped="${skipped}" time="0">`,
    `<properties>${property('content', content)}${observed.map((one) => property(one.scorer, observedText(one))).join('')}</properties>`,
    ...thresholds.map((result) => testCase(result, 'release-gate')),
    '</testsuite>',
    '</testsuites>',
    '',
  ].join('\n');
}
