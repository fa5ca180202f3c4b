/** Draws what a terminal shows as an SVG, from the text with its color codes. */

import { batches } from '../../src/core/values/batches.ts';

const FONT = 'ui-monospace, SFMono-Regular, Menlo, Consolas, monospace';
const [SIZE, WIDTH, HEIGHT, MARGIN] = [13, 7.83, 18, 16];
const COLORS = { back: '#14181f', text: '#d7dce3', dim: '#8a94a3', red: '#ff8b80', green: '#7fd88f' };

/** The codes that `styleText` writes. */
const STYLES: Record<string, Partial<Style>> = {
  1: { bold: true },
  2: { color: COLORS.dim },
  22: { bold: false, color: COLORS.text },
  31: { color: COLORS.red },
  32: { color: COLORS.green },
  39: { color: COLORS.text },
};

interface Style {
  bold: boolean;
  color: string;
}

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

interface Cell extends Style {
  character: string;
}

/** The characters of each row, with their styles. Like a terminal, it breaks a longer line at the last column. */
function rowsOf(output: string, columns: number): Cell[][] {
  const rows: Cell[][] = [];
  let style: Style = { bold: false, color: COLORS.text };
  for (const line of output.trimEnd().split('\n')) {
    const cells = line.split('\u001b[').flatMap((part, index) => {
      const code = index === 0 ? undefined : part.slice(0, part.indexOf('m'));
      if (code !== undefined) style = { ...style, ...STYLES[code] };
      const text = code === undefined ? part : part.slice(code.length + 1);
      return [...text.replace('\r', '')].map((character) => ({ ...style, character }));
    });
    rows.push(...(cells.length === 0 ? [[]] : batches(cells, columns)));
  }
  return rows;
}

/** One element for all neighbors of a style. */
function spansOf(cells: readonly Cell[]): string {
  const spans: { style: Style; text: string }[] = [];
  for (const { character, ...style } of cells) {
    const last = spans.at(-1);
    if (last?.style.bold === style.bold && last.style.color === style.color) last.text += character;
    else spans.push({ style, text: character });
  }
  const weight = ({ bold }: Style): string => (bold ? ' font-weight="700"' : '');
  return spans
    .map(({ style, text }) => `<tspan fill="${style.color}"${weight(style)}>${escaped(text)}</tspan>`)
    .join('');
}

/** @param columns of the terminal: its width in the picture */
export function terminalSvg(output: string, columns: number): string {
  const rows = rowsOf(output, columns);
  const [width, height] = [Math.ceil(columns * WIDTH + 2 * MARGIN), rows.length * HEIGHT + 2 * MARGIN];
  const lines = rows.map(
    (cells, row) =>
      `<text x="${MARGIN}" y="${MARGIN + (row + 1) * HEIGHT - 5}" xml:space="preserve">${spansOf(cells)}</text>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="${FONT}" font-size="${SIZE}">
<title>A terminal</title>
<rect width="100%" height="100%" rx="8" fill="${COLORS.back}"/>
${lines.join('\n')}
</svg>
`;
}
