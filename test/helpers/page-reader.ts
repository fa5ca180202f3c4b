/** Reads the page about an endpoint as its reader would. */

/** The text of HTML: inline elements end no word. */
const textOf = (html: string): string =>
  html
    .replaceAll(/<\/?(span|b|bdi|code|data)\b[^>]*>/g, '')
    .replaceAll(/(<[^>]*>| )+/g, ' ')
    .trim();

/** Returns the first screen: a line for each heading and card, with CHART where one is. */
export function firstScreen(html: string): string {
  const [first = ''] = html.slice(html.indexOf('<div class="first">')).split('\n</div>\n');
  const marked = first.replaceAll(/<svg.*?<\/svg>/gs, 'CHART').replaceAll(/\s+/g, ' ');
  return marked
    .split(/(?=<div class="card|<h2>)/)
    .map(textOf)
    .join('\n');
}

/** Returns a table: by the first cell of each row, its cells by the name of their column. */
export function tableOf(html: string, title: string): Map<string, Record<string, { text: string; values: number[] }>> {
  const [, section = ''] = html.split(`<h2>${title}</h2>`);
  const [, ...rows] =
    section
      .slice(0, section.indexOf('</section>'))
      .split('<tbody>')[1]
      ?.split(/<tr[^>]*>/) ?? [];
  return new Map(
    rows.map((row) => {
      const cells = Array.from(row.matchAll(/data-name="([^"]*)">(.*?)<\/td>/gs), ([, name = '', cell = '']) => {
        const values = Array.from(cell.matchAll(/<data value="([^"]*)"/g), ([, value]) => Number(value));
        return [name, { text: textOf(cell), values }] as const;
      });
      return [cells[0]?.[1].text ?? '', Object.fromEntries(cells.slice(1))];
    }),
  );
}

/** Returns the names of a chart with their sums. */
export function legendOf(html: string, title: string): string[] {
  const [, chart = ''] = html.split(`<h3>${title}</h3>`);
  const texts = chart.slice(0, chart.indexOf('</svg>')).matchAll(/text-anchor="start"[^>]*>([^<]+)</g);
  return Array.from(texts, ([, text = '']) => text.replace('&lt;', '<').replace('&gt;', '>').replaceAll('&quot;', '"'));
}
