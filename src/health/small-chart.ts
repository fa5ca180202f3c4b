/**
 * Small charts, several of which fit next to each other on a page. Curves differ by line and symbol as well as by
 * color.
 */

import { axis, BLUE, GREEN, INK, ORANGE, PURPLE, RED, svg } from '../core/text/charts.ts';
import { escapeHtml } from '../core/text/html-page.ts';

/** Three charts fit next to each other on a page, and one fits a phone's screen. */
const [WIDTH, HEIGHT] = [340, 180];
const STYLES = [
  { color: BLUE, symbol: 'circle', type: 'solid' },
  { color: ORANGE, symbol: 'triangle', type: 'dashed' },
  { color: GREEN, symbol: 'rect', type: 'dotted' },
  { color: PURPLE, symbol: 'diamond', type: 'solid' },
];
const TEXT = { color: INK, fontSize: 11 };
/** A longer name ends early. */
const NAME = { ...TEXT, width: 260, overflow: 'truncate' } as const;
/** Approximate size of a legend's letter and item. */
const [LETTER_WIDTH, ITEM_WIDTH] = [6, 48];

export interface Curve {
  name: string;
  values: readonly (number | null)[];
  /** The 95% interval of each value. */
  band?: readonly ({ low: number | null; high: number | null } | null)[] | undefined;
}

interface Chart {
  title: string;
  /** Unit of the values. Empty if the title mentions it. */
  unit: string;
  /** Label of each value, such as `11-20`. */
  labels: readonly string[];
  /** At most four curves. */
  curves: readonly Curve[];
  /** Bars that add up, in place of lines. */
  isStacked?: boolean;
  isShare?: boolean;
  /** The objective. */
  bound?: number | undefined;
  /** Index of the label at which the values changed; -1 without a change. */
  since?: number;
  height?: number | undefined;
}

const short = (value: number): string => value.toLocaleString('en-US', { notation: 'compact' });
const share = (value: number): string => `${Number((100 * value).toFixed(1))}%`;

/** Returns a chart with its title as HTML. Returns an empty text without values. */
export function chart(of: Chart): string {
  const { title, unit, labels, curves, isStacked, isShare, bound, since = -1, height = HEIGHT } = of;
  if (!curves.some(({ values }) => values.some((value) => value !== null && value !== 0))) return '';
  const hasLegend = isStacked === true || curves.length > 1;
  // Names that do not fit one line need another.
  const widths = curves.map(({ name }) => ITEM_WIDTH + Math.min(NAME.width, name.length * LETTER_WIDTH));
  const width = widths.reduce((total, one) => total + one, 0);
  const legendHeight = hasLegend ? 20 * Math.ceil(width / (WIDTH - ITEM_WIDTH)) : 0;
  const objective = { yAxis: bound, lineStyle: { color: RED, type: 'dashed' }, label: { show: false } };
  const label = { formatter: 'since', position: 'end', rotate: 0, ...TEXT };
  const began = { xAxis: since, lineStyle: { color: INK, type: 'solid' }, label };
  const data = [...(bound === undefined ? [] : [objective]), ...(since < 0 ? [] : [began])];
  const markLine = { silent: true, symbol: 'none', data };
  const drawn = svg(
    {
      grid: { left: 48, right: 12, top: 24 + legendHeight, bottom: 28 },
      legend: { show: hasLegend, top: 0, left: 0, itemWidth: 24, itemGap: 18, textStyle: NAME },
      xAxis: { type: 'category', data: [...labels], axisLabel: TEXT, axisTick: { show: false } },
      yAxis: {
        ...axis(''),
        scale: isShare === true,
        splitNumber: height < HEIGHT ? 3 : 5,
        max: ({ max }: { max: number }) => (isShare && max > 0.8 ? 1 : (null as unknown as number)),
        axisLabel: { ...TEXT, formatter: isShare ? share : short },
      },
      series: curves.flatMap((curve, n) => {
        const own = isStacked ? barsOf(curve, n) : lineSeries(curve, n);
        return [...bandOf(curve), n === 0 ? { ...own, markLine } : own];
      }),
    },
    unit === '' ? title : `${title}: ${unit}`,
    height + Math.max(0, legendHeight - 20),
    WIDTH,
  );
  return `<div class="chart"><h3>${escapeHtml(title)}</h3><p class="soft">${escapeHtml(unit)}</p>${drawn}</div>`;
}

function lineSeries({ name, values }: Curve, n: number): object {
  const { color, symbol, type } = STYLES[n % STYLES.length] ?? {};
  const [itemStyle, lineStyle] = [{ color }, { color, type, width: 2 }];
  return { type: 'line', name, data: values, symbol, symbolSize: 5, itemStyle, lineStyle, z: 3 };
}

/** Stripes distinguish bars without color. */
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
