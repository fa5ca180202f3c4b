/** Draws charts as SVG text, without a browser. */
import type { EChartsOption, EChartsType } from 'echarts';
import { escapeHtml } from './html-page.ts';

const WIDTH = 960;
const HEIGHT = 300;
/** These colors are readable on light and dark pages. */
export const INK = '#808890';
const GRID = '#80889040';
export const BLUE = '#3b82d6';
export const ORANGE = '#e08a1e';
export const GREEN = '#2f9e6b';
export const RED = '#d6453d';
export const PURPLE = '#8a63c9';

interface ECharts {
  init(element: null, theme: null, options: object): EChartsType;
}

let loaded: ECharts | undefined;

/**
 * Loads the library. Await this before drawing a chart. It loads the one-file build of the common charts, because
 * loading the hundreds of single modules takes five times as long and five times the memory.
 */
export async function loadCharts(): Promise<void> {
  if (loaded) return;
  // @ts-expect-error the one-file build comes without types; those of the package apply
  const file = (await import('echarts/dist/echarts.common.min.js')) as { default?: ECharts } & ECharts;
  loaded = file.default ?? file;
}

function echarts(): ECharts {
  if (!loaded) throw new Error('loadCharts() must be awaited before a chart is drawn');
  return loaded;
}

/**
 * Returns the chart as HTML.
 *
 * @param width a small chart fits a narrow screen; a larger one is scrolled there, since its text would be too small to read
 */
export function svg(option: EChartsOption, title: string, height = HEIGHT, width = WIDTH): string {
  const chart = echarts().init(null, null, { renderer: 'svg', ssr: true, width, height });
  chart.setOption({ animation: false, textStyle: { fontFamily: 'system-ui, sans-serif', color: INK }, ...option });
  const text = chart.renderToSVGString();
  chart.dispose();
  const named = text.replace('<svg ', `<svg role="img" aria-label="${escapeHtml(title)}" `);
  return width < WIDTH ? `<div class="small">${named}</div>` : `<div class="wide" tabindex="0">${named}</div>`;
}

export const axis = (name: string, type: 'value' | 'log' = 'value') => ({
  type,
  name,
  nameTextStyle: { color: INK },
  axisLabel: { color: INK },
  axisLine: { show: true, lineStyle: { color: GRID } },
  splitLine: { lineStyle: { color: GRID } },
});
