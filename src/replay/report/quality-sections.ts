/** The figures of a report about the quality of the replies. */
import { escapeHtml, tableSection } from '../../core/text/html-page.ts';
import { errorsText, type Quality } from '../compare/quality.ts';

const percent = (count: number, total: number): string =>
  total === 0 ? '–' : `${((100 * count) / total).toFixed(1)}%`;

/** Names and values of the figures, for the report and for the terminal. */
export function qualityLines(quality: Quality): [string, string][] {
  const { compared, status, refusals, json, judged } = quality;
  const share = (count: number): string => `${count} (${percent(count, compared)})`;
  const lines: [string, string][] = [
    ['replies compared', String(compared)],
    ['identical', share(quality.identical)],
    ['same after normalizing', share(quality.same)],
    ['newly failing', share(status['newly-failing'])],
    ['newly succeeding', share(status['newly-succeeding'])],
    ...(status['both-failed'] > 0 ? [['failed both times', share(status['both-failed'])] as [string, string]] : []),
  ];
  const { regressions } = quality;
  if (regressions['empty-reply'] > 0) lines.push(['no content any more', share(regressions['empty-reply'])]);
  if (regressions['another-kind'] > 0) lines.push(['of another kind', share(regressions['another-kind'])]);
  if (quality.texts > 0) {
    lines.push(['mean word overlap', (quality.meanOverlap ?? 0).toFixed(3)]);
    lines.push(['little in common', share(regressions['little-in-common'])]);
    if (quality.lengthRatio !== null) lines.push(['length, new to old', quality.lengthRatio.toFixed(2)]);
    const isNew = regressions['new-refusal'];
    const gone = refusals.before - refusals.after + isNew;
    lines.push(['refusals', `${refusals.before} before, ${refusals.after} after (${isNew} new, ${gone} gone)`]);
  }
  if (json.compared > 0) {
    lines.push(['JSON replies', String(json.compared)]);
    lines.push(['JSON no longer valid', String(regressions['json-broken'])]);
    lines.push(['JSON structure changed', String(regressions['json-structure'])]);
    lines.push(['JSON values changed', String(json.valuesChanged)]);
  }
  if (judged) {
    const { better, same, worse, undecided, failed, overBudget } = judged;
    lines.push([
      'judged',
      `${better} better, ${same} same, ${worse} worse, ${undecided} undecided, ${failed} without a verdict` +
        (judged.errors ? ` (${errorsText(judged)})` : ''),
    ]);
    const { emptied: unasked } = quality.comparable;
    if (unasked > 0) lines.push(['worse without asking (no content)', String(unasked)]);
    if (overBudget > 0) lines.push(['not judged (over budget)', String(overBudget)]);
  }
  lines.push(['got worse', share(quality.regressed)]);
  return lines;
}

export const qualitySection = (quality: Quality, title: string): string =>
  tableSection<[string, string]>(
    title,
    [
      { name: 'figure', cell: ([name]) => escapeHtml(name) },
      { name: 'value', cell: ([, value]) => escapeHtml(value) },
    ],
    qualityLines(quality),
  );
