/** Formats `profile_export_aiperf.csv` as AIPerf 0.13 does. */
import { PERCENTILES } from '../measure/distribution.ts';
import { METRIC_NAMES } from '../metrics.ts';
import type { MetricResult } from './summary.ts';

const PERCENTILE_KEYS = PERCENTILES.map((percent) => `p${percent}`);
const STATISTICS = ['avg', 'min', 'max', 'sum', ...PERCENTILE_KEYS, 'std'] as const;

const cell = (text: string): string => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const number = (value: number | string | undefined): string => (typeof value === 'number' ? value.toFixed(2) : '');

/** Adds the unit to the name, except for counts. */
const named = (header: string, unit: string): string =>
  unit === 'count' || unit === 'requests' ? header : `${header} (${unit})`;

const hasPercentiles = (result: MetricResult): boolean => PERCENTILE_KEYS.some((key) => result[key] !== undefined);

export function summaryCsv(results: ReadonlyMap<string, MetricResult>): string {
  const all = [...results].sort(([a], [b]) => (a < b ? -1 : 1));
  const name = (tag: string, { unit }: MetricResult): string =>
    cell(named(METRIC_NAMES[tag as keyof typeof METRIC_NAMES].header, unit));
  const rows = [['Metric', ...STATISTICS].join(',')];
  for (const [tag, result] of all) {
    if (!hasPercentiles(result)) continue;
    rows.push([name(tag, result), ...STATISTICS.map((statistic) => number(result[statistic]))].join(','));
  }
  rows.push('', 'Metric,Value');
  for (const [tag, result] of all) {
    if (!hasPercentiles(result)) rows.push(`${name(tag, result)},${number(result.avg)}`);
  }
  return `${rows.join('\n')}\n`;
}
