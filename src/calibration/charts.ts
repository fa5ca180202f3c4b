/** Draws the charts of a calibration report. */
import { axis, BLUE, INK, ORANGE, svg } from '../shared/charts.ts';
import type { Estimate } from '../shared/statistics/share.ts';
import type { ScorerReport } from './types.ts';

/** Height of one scorer's row, and of the legend above the rows and the axis below. */
const ROW = 38;
const AROUND = 96;
/** Distance of the two figures of a row from its middle, in rows. */
const OFFSET = 0.2;

interface Series {
  name: string;
  of(scorer: ScorerReport): Estimate | null;
}

/** Draws a dot for each figure with a whisker over its interval, two figures per row. */
function dotsAndWhiskers(scorers: readonly ScorerReport[], series: readonly [Series, Series], title: string): string {
  const figures = scorers.flatMap((scorer) => series.map(({ of }) => of(scorer)?.low ?? 0));
  const option = {
    color: [BLUE, ORANGE],
    legend: { top: 8, left: 190, itemGap: 28, textStyle: { color: INK } },
    grid: { left: 190, right: 28, top: 44, bottom: 44 },
    // Kappa is negative if the two agree less than by chance.
    xAxis: { ...axis(''), min: Math.floor(Math.min(0, ...figures) * 5) / 5, max: 1 },
    yAxis: {
      ...axis(''),
      inverse: true,
      max: scorers.length,
      interval: 0.5,
      splitLine: { show: false },
      axisTick: { show: false },
      axisLabel: {
        color: INK,
        width: 170,
        overflow: 'truncate' as const,
        formatter: (row: number) => (row % 1 === 0 ? '' : (scorers[Math.floor(row)]?.name ?? '')),
      },
    },
    series: series.map(({ name, of }, index) => {
      const shown = scorers.flatMap((scorer, row) => {
        const figure = of(scorer);
        return figure === null ? [] : [{ ...figure, y: row + 0.5 + (index === 0 ? -OFFSET : OFFSET) }];
      });
      return {
        name,
        type: 'scatter' as const,
        symbol: index === 0 ? 'circle' : 'diamond',
        symbolSize: 11,
        data: shown.map(({ value, y }) => [value, y]),
        markLine: {
          symbol: 'rect',
          symbolSize: [9, 2],
          lineStyle: { type: 'solid' as const, width: 2 },
          label: { show: false },
          data: shown.map(({ low, high, y }) => [{ coord: [low, y] }, { coord: [high, y] }]),
        },
      };
    }),
  };
  return svg(option as Parameters<typeof svg>[0], title, AROUND + ROW * scorers.length);
}

export const agreementChart = (scorers: readonly ScorerReport[]): string =>
  dotsAndWhiskers(
    scorers,
    [
      { name: 'Agreement', of: ({ agreement }) => agreement },
      { name: 'Cohen’s κ', of: ({ kappa }) => kappa },
    ],
    'Agreement and Cohen’s kappa by scorer; the figures are in the table below',
  );

export const ratesChart = (scorers: readonly ScorerReport[]): string =>
  dotsAndWhiskers(
    scorers,
    [
      { name: 'True positive rate', of: ({ tpr }) => tpr },
      { name: 'True negative rate', of: ({ tnr }) => tnr },
    ],
    'True positive and true negative rate by scorer; the figures are in the table below',
  );
