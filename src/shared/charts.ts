/** Charts as SVG texts, drawn without a browser. */
import type { EChartsOption, EChartsType } from 'echarts';

const WIDTH = 960;
const HEIGHT = 300;
/** Readable on a light and on a dark page. */
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
 * Loads the library; to be awaited before a chart is drawn. Its one-file build of the common charts is taken: loading its
 * hundreds of modules one by one takes five times the time and the memory.
 */
export async function loadCharts(): Promise<void> {
  if (loaded) return;
  // @ts-expect-error the one-file build has no types of its own; they are those of the package
  const file = (await import('echarts/dist/echarts.common.min.js')) as { default?: ECharts } & ECharts;
  loaded = file.default ?? file;
}

function echarts(): ECharts {
  if (!loaded) throw new Error('A chart is drawn before loadCharts()');
  return loaded;
}

export function svg(option: EChartsOption, title: string, height = HEIGHT): string {
  const chart = echarts().init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height });
  chart.setOption({ animation: false, textStyle: { fontFamily: 'system-ui, sans-serif', color: INK }, ...option });
  const text = chart.renderToSVGString();
  chart.dispose();
  // On a narrow screen it is scrolled: made smaller, nobody could read its words.
  return `<div class="wide">${text.replace('<svg ', `<svg role="img" aria-label="${title}" `)}</div>`;
}

export const axis = (name: string, type: 'value' | 'log' = 'value') => ({
  type,
  name,
  nameTextStyle: { color: INK },
  axisLabel: { color: INK },
  axisLine: { show: true, lineStyle: { color: GRID } },
  splitLine: { lineStyle: { color: GRID } },
});
