/** The charts of a replay as SVG. */
import type { EChartsOption } from 'echarts';
import { axis, BLUE, GREEN, INK, ORANGE, PURPLE, RED, svg } from '../../core/text/charts.ts';
import type { Distribution } from '../measure/distribution.ts';
import type { ReportCollector, TimeBucket } from '../measure/report-collector.ts';

const BARS = 60;

const base = {
  grid: { left: 70, right: 30, top: 40, bottom: 40 },
  legend: { top: 4, itemGap: 44, textStyle: { color: INK } },
};
const seconds = { ...axis('s'), nameLocation: 'end' as const, min: 0 };
const line = (name: string, color: string, data: [number, number][], extra = {}) => ({
  type: 'line' as const,
  name,
  data,
  // A single point needs a symbol to be visible.
  showSymbol: data.length === 1,
  lineStyle: { color, width: 2 },
  itemStyle: { color },
  ...extra,
});

/** Returns one value for each bucket, at the middle of its time. */
function series(report: ReportCollector, value: (bucket: TimeBucket) => number | undefined): [number, number][] {
  const points: [number, number][] = [];
  for (const [index, bucket] of [...report.buckets].sort(([a], [b]) => a - b)) {
    const found = value(bucket);
    if (found !== undefined) points.push([((index + 0.5) * report.bucketMs) / 1000, found]);
  }
  return points;
}

/**
 * Counts per second, 0 for seconds without any. Shorter intervals would show bursts as multiples of the rate, because
 * captured times have whole seconds.
 */
export function ratePerSecond(report: ReportCollector, value: (bucket: TimeBucket) => number): [number, number][] {
  const joined = Math.max(1, 1000 / report.bucketMs);
  const seconds = (joined * report.bucketMs) / 1000;
  const sums = Array.from({ length: Math.floor(Math.max(-1, ...report.buckets.keys()) / joined) + 1 }, () => 0);
  for (const [index, bucket] of report.buckets) {
    const at = Math.floor(index / joined);
    sums[at] = (sums[at] ?? 0) + value(bucket);
  }
  return sums.map((sum, i) => [(i + 0.5) * seconds, sum / seconds]);
}

/** Values that differ more than tenfold need a logarithmic axis. */
const wide = (values: readonly number[]): boolean => {
  const positive = values.filter((value) => value > 0);
  return positive.length > 0 && Math.max(...positive) / Math.min(...positive) > 10;
};

/** @param scheduled whether the requests had scheduled times */
export function latencyOverTime(report: ReportCollector, scheduled: boolean): string {
  const [ok = [], failed = []] = [report.points, report.errorPoints].map((sample) =>
    sample.kept().map(([at, ms]): [number, number] => [at, Math.max(ms, 0.01)]),
  );
  const fromSchedule = scheduled
    ? series(report, ({ maxEffective }) => (maxEffective > 0 ? Math.max(0.01, maxEffective) : undefined))
    : [];
  const type = wide([...ok, ...failed, ...fromSchedule].map(([, ms]) => ms)) ? 'log' : 'value';
  const percentile = (percent: number) =>
    series(report, ({ latency }) => (latency.count > 0 ? Math.max(0.01, latency.percentile(percent)) : undefined));
  const option: EChartsOption = {
    ...base,
    xAxis: seconds,
    yAxis: axis('ms', type),
    series: [
      {
        type: 'scatter',
        name: 'request',
        data: ok,
        large: true,
        largeThreshold: 1,
        symbolSize: 4,
        itemStyle: { color: `${BLUE}c0` },
        z: 4,
      },
      line('p50', GREEN, percentile(50)),
      line('p95', ORANGE, percentile(95)),
      ...(fromSchedule.length > 0 ? [line('maximum effective latency', PURPLE, fromSchedule)] : []),
      {
        type: 'scatter',
        name: 'failed',
        data: failed,
        symbol: 'path://M0,0L8,8M8,0L0,8',
        symbolSize: 7,
        itemStyle: { color: 'none', borderColor: RED, borderWidth: 1.5 },
        z: 5,
      },
    ],
  };
  return svg(option, 'Latency of requests over time');
}

export function distributions(
  named: readonly { name: string; distribution: Distribution | undefined }[],
  title: string,
): string {
  const colors = [BLUE, ORANGE, PURPLE, GREEN];
  const shown = named.filter((one) => one.distribution !== undefined && one.distribution.count > 0);
  const bounds = shown.flatMap(({ distribution }) => [distribution?.min ?? 0, distribution?.max ?? 0]);
  const [low, high] = [Math.min(...bounds), Math.max(...bounds)];
  // Nearly equal values get a wider axis, so that tiny differences do not look large.
  const around = high < low * 1.05 ? { min: Math.floor(low * 0.9), max: Math.ceil(high * 1.1) } : {};
  const option: EChartsOption = {
    ...base,
    xAxis: { ...axis('ms', wide(bounds) ? 'log' : 'value'), scale: true, ...around },
    yAxis: axis('requests'),
    series: shown.map(({ name, distribution }, i) => {
      const color = colors[i % colors.length] ?? BLUE;
      // A step from the start of each bucket to its end. Between buckets, the line is at 0.
      const steps: [number, number][] = [];
      for (const [from, to, count] of distribution?.buckets(BARS) ?? []) {
        if (steps.at(-1)?.[0] === from) steps.pop();
        else steps.push([from, 0]);
        steps.push([from, count], [to, count], [to, 0]);
      }
      return line(name, color, steps, { areaStyle: { color: `${color}30` } });
    }),
  };
  return svg(option, title);
}

export function throughput(report: ReportCollector): string {
  const counts: [string, string, (bucket: TimeBucket) => number][] = [
    ['sent', BLUE, ({ sent }) => sent],
    ['completed', GREEN, ({ completed, failed }) => completed - failed],
    ['failed', RED, ({ failed }) => failed],
  ];
  const option: EChartsOption = {
    ...base,
    xAxis: seconds,
    yAxis: axis('requests/s'),
    series: counts.map(([name, color, count]) => line(name, color, ratePerSecond(report, count))),
  };
  return svg(option, 'Throughput over time');
}
