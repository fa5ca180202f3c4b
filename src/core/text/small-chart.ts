/** Small charts, some of which fit a page beside each other. Curves differ by line and symbol as well as by color. */

import { axis, BLUE, GREEN, INK, ORANGE, PURPLE, RED, svg } from './charts.ts';
import { escapeHtml } from './html-page.ts';

/** Three of them fit the page beside each other, and one fits a telephone. */
const [WIDTH, HEIGHT] = [340, 180];
const STYLES = [
  { color: BLUE, symbol: 'circle', type: 'solid' },
  { color: ORANGE, symbol: 'triangle', type: 'dashed' },
  { color: GREEN, symbol: 'rect', type: 'dotted' },
  { color: PURPLE, symbol: 'diamond', type: 'solid' },
];
const TEXT = { color: INK, fontSize: 11 };

export interface Curve {
  name: string;
  values: readonly (number | null)[];
  /** The 95% interval of each value. */
  band?: readonly ({ low: number | null; high: number | null } | null)[] | undefined;
}

interface Chart {
  title: string;
  /** What the values are of. */
  unit: string;
  /** Of each value, such as `11-20`. */
  labels: readonly string[];
  /** At most four. */
  curves: readonly Curve[];
  /** Bars that add up, in place of lines. */
  isStacked?: boolean;
  isShare?: boolean;
  /** The objective. */
  bound?: number | undefined;
  /** Moments, by the index of their label. */
  marks?: readonly { at: number; text: string }[];
}

const short = (value: number): string => value.toLocaleString('en-US', { notation: 'compact' });
const share = (value: number): string => `${Number((100 * value).toFixed(1))}%`;

/** Returns a chart with its title as HTML; nothing without values. */
export function chart({ title, unit, labels, curves, isStacked, isShare, bound, marks = [] }: Chart): string {
  if (!curves.some(({ values }) => values.some((value) => value !== null && value !== 0))) return '';
  const isOne = curves.length === 1;
  const lines = marks.map(({ at, text }) => ({ xAxis: at, ...lineOf(text, INK, 'end') }));
  const objective = { yAxis: bound, ...lineOf(`objective ${share(bound ?? 0)}`, RED, 'insideStartBottom') };
  const markLine = { silent: true, symbol: 'none', data: bound === undefined ? lines : [objective, ...lines] };
  const drawn = svg(
    {
      grid: { left: 48, right: 12, top: isOne ? 24 : 44, bottom: 28 },
      legend: { show: !isOne, top: 0, left: 0, itemWidth: 24, itemGap: 18, textStyle: TEXT },
      xAxis: { type: 'category', data: [...labels], axisLabel: TEXT, axisTick: { show: false } },
      yAxis: {
        ...axis(''),
        scale: isShare === true,
        max: ({ max }: { max: number }) => (isShare && max > 0.8 ? 1 : (null as unknown as number)),
        axisLabel: { ...TEXT, formatter: isShare ? share : short },
      },
      series: curves.flatMap((curve, n) => {
        const own = isStacked ? barsOf(curve, n) : lineSeries(curve, n);
        return [...bandOf(curve), n === 0 ? { ...own, markLine } : own];
      }),
    },
    `${title}: ${unit}`,
    HEIGHT,
    WIDTH,
  );
  return `<div class="chart"><h3>${escapeHtml(title)}</h3><p class="soft">${escapeHtml(unit)}</p>${drawn}</div>`;
}

const lineOf = (text: string, color: string, position: string) => ({
  lineStyle: { color, type: color === RED ? 'dashed' : 'solid' },
  label: { formatter: text, position, rotate: 0, ...TEXT },
});

function lineSeries({ name, values }: Curve, n: number): object {
  const { color, symbol, type } = STYLES[n % STYLES.length] ?? {};
  const [itemStyle, lineStyle] = [{ color }, { color, type, width: 2 }];
  return { type: 'line', name, data: values, symbol, symbolSize: 5, itemStyle, lineStyle, z: 3 };
}

/** Stripes tell bars apart without color. */
function barsOf({ name, values }: Curve, n: number): object {
  const stripes = { symbol: 'rect', color: '#ffffff70', dashArrayX: [1, 0], dashArrayY: [2, 2 + n], rotation: n * 0.8 };
  const itemStyle = { color: STYLES[n % STYLES.length]?.color, ...(n > 0 && { decal: stripes }) };
  return { type: 'bar', name, data: values, stack: 'all', itemStyle };
}

/** The interval: its low end without color, and its height on top of that. */
function bandOf({ name, band }: Curve): object[] {
  if (band === undefined) return [];
  const height = band.map((one) => (one?.high == null ? null : one.high - (one.low ?? 0)));
  const edge = { type: 'line', stack: `band ${name}`, symbol: 'none', lineStyle: { opacity: 0 }, silent: true };
  return [
    { ...edge, data: band.map((one) => one?.low ?? null) },
    { ...edge, data: height, areaStyle: { color: BLUE, opacity: 0.18 } },
  ];
}
