/** Charts of a calibration report as SVG text, drawn without a browser. */
import * as echarts from 'echarts';
import type { Estimate } from './statistics.ts';
import type { ScorerReport } from './types.ts';

const WIDTH = 860;
/** Height of one scorer's row, and of what is around the rows: legend above, axis below. */
const ROW = 38;
const AROUND = 96;
const COLOURS = ['#1b62b5', '#c4600c'] as const;
/** Without quotes: the names stand in a style attribute. */
const FONT = 'system-ui, -apple-system, sans-serif';
const CAP = 5;
const DOT = 6;
/** The two figures of a row stand this far above and below its middle. */
const OFFSET = 8;

interface Series {
  name: string;
  of(scorer: ScorerReport): Estimate | null;
}

/** A dot at each figure with a whisker over its interval, two figures a row. */
function dotsAndWhiskers(scorers: readonly ScorerReport[], series: readonly [Series, Series]): string {
  const height = AROUND + ROW * scorers.length;
  const figures = scorers.flatMap((scorer) => series.map(({ of }) => of(scorer)?.low ?? 0));
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height });
  chart.setOption({
    animation: false,
    textStyle: { fontFamily: FONT },
    color: [...COLOURS],
    legend: { top: 8, left: 190, itemGap: 28, selectedMode: false, textStyle: { color: '#24292f' } },
    grid: { left: 190, right: 28, top: 44, bottom: 44 },
    xAxis: {
      type: 'value',
      // Kappa is below 0 where the two agree less than by chance.
      min: Math.floor(Math.min(0, ...figures) * 5) / 5,
      max: 1,
      axisLabel: { formatter: (value: number) => value.toFixed(1), color: '#57606a' },
      splitLine: { lineStyle: { color: '#e4e8ec' } },
    },
    yAxis: {
      type: 'category',
      inverse: true,
      data: scorers.map(({ name }) => name),
      axisTick: { show: false },
      axisLabel: { color: '#24292f', width: 170, overflow: 'truncate' },
      axisLine: { lineStyle: { color: '#8c959f' } },
    },
    series: series.map(({ name, of }, index) => ({
      name,
      type: 'custom',
      // Nothing happens on a page without scripts: no pointer, no highlighting.
      silent: true,
      data: scorers.flatMap((scorer, row) => {
        const figure = of(scorer);
        return figure === null ? [] : [[figure.value, row, figure.low, figure.high]];
      }),
      renderItem: (_: unknown, api: echarts.CustomSeriesRenderItemAPI) => {
        const at = (value: number): number => (api.coord([value, api.value(1)]) as [number, number])[0];
        const y = (api.coord([0, api.value(1)]) as [number, number])[1] + (index === 0 ? -OFFSET : OFFSET);
        const [value, low, high] = [api.value(0), api.value(2), api.value(3)].map((figure) => at(Number(figure))) as [
          number,
          number,
          number,
        ];
        const style = { stroke: COLOURS[index] as string, lineWidth: 1.5 };
        const line = (x1: number, y1: number, x2: number, y2: number) =>
          ({ type: 'line', shape: { x1, y1, x2, y2 }, style }) as const;
        const fill = { fill: COLOURS[index] as string };
        // The second series is told apart by its form as well as by its colour.
        const dot =
          index === 0
            ? ({ type: 'circle', shape: { cx: value, cy: y, r: DOT - 1 }, style: fill } as const)
            : ({
                type: 'polygon',
                shape: {
                  points: [
                    [value, y - DOT],
                    [value + DOT, y],
                    [value, y + DOT],
                    [value - DOT, y],
                  ],
                },
                style: fill,
              } as const);
        const whisker = [line(low, y, high, y), line(low, y - CAP, low, y + CAP), line(high, y - CAP, high, y + CAP)];
        return { type: 'group', children: [...whisker, dot] };
      },
    })),
  } as echarts.EChartsOption);
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}

export const agreementChart = (scorers: readonly ScorerReport[]): string =>
  dotsAndWhiskers(scorers, [
    { name: 'Agreement', of: ({ agreement }) => agreement },
    { name: 'Cohen’s κ', of: ({ kappa }) => kappa },
  ]);

export const ratesChart = (scorers: readonly ScorerReport[]): string =>
  dotsAndWhiskers(scorers, [
    { name: 'True positive rate', of: ({ tpr }) => tpr },
    { name: 'True negative rate', of: ({ tnr }) => tnr },
  ]);
