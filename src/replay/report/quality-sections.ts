/** The figures of a report about the quality of the replies. */
import { escapeHtml, tableSection } from '../../core/text/html-page.ts';
import { errorsText, type Quality } from '../compare/quality.ts';

const percent = (count: number, total: number): string =>
  total === 0 ? '–' : `${((100 * count) / total).toFixed(1)}%`;

/** The figures, by name, for the report and for the terminal. */
export function qualityFigures(quality: Quality): Record<string, string | false | undefined> {
  const { compared, status, refusals, json, judged, regressions, lengthRatio } = quality;
  const share = (count: number): string => `${count} (${percent(count, compared)})`;
  const isNew = regressions['new-refusal'];
  const gone = refusals.before - refusals.after + isNew;
  const hasTexts = quality.texts > 0;
  const ifJson = (count: number) => json.compared > 0 && String(count);
  const errors = judged?.errors ? ` (${errorsText(judged)})` : '';
  const { emptied: unasked } = quality.comparable;
  return {
    'replies compared': String(compared),
    identical: share(quality.identical),
    'same after normalizing': share(quality.same),
    'newly failing': share(status['newly-failing']),
    'newly succeeding': share(status['newly-succeeding']),
    'failed both times': status['both-failed'] > 0 && share(status['both-failed']),
    'no content any more': regressions['empty-reply'] > 0 && share(regressions['empty-reply']),
    'of another kind': regressions['another-kind'] > 0 && share(regressions['another-kind']),
    'mean word overlap': hasTexts && (quality.meanOverlap ?? 0).toFixed(3),
    'little in common': hasTexts && share(regressions['little-in-common']),
    'length, new to old': hasTexts && lengthRatio?.toFixed(2),
    refusals: hasTexts && `${refusals.before} before, ${refusals.after} after (${isNew} new, ${gone} gone)`,
    'JSON replies': ifJson(json.compared),
    'JSON no longer valid': ifJson(regressions['json-broken']),
    'JSON structure changed': ifJson(regressions['json-structure']),
    'JSON values changed': ifJson(json.valuesChanged),
    judged:
      judged !== undefined &&
      `${judged.better} better, ${judged.same} same, ${judged.worse} worse, ${judged.undecided} undecided, ${judged.failed} without a verdict${errors}`,
    'worse without asking (no content)': judged !== undefined && unasked > 0 && String(unasked),
    'not judged (over budget)': judged !== undefined && judged.overBudget > 0 && String(judged.overBudget),
    'got worse': share(quality.regressed),
  };
}

export const qualitySection = (quality: Quality, title: string): string =>
  tableSection<readonly [string, string]>(
    title,
    [
      { name: 'figure', cell: ([name]) => escapeHtml(name) },
      { name: 'value', cell: ([, value]) => escapeHtml(value) },
    ],
    Object.entries(qualityFigures(quality)).flatMap(([name, value]) => (value ? [[name, value] as const] : [])),
  );
