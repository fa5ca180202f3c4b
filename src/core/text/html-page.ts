/** Builds the HTML of reports: self-contained pages without external files, from the same parts that commands show. */
import { bracketed, percent, type Shown, whole } from './figure-text.ts';
import { type Cell, isOfFigures, type Marked, type Page, type Part, type Table } from './page.ts';

export const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);

/** Escapes foreign text within a line. Its direction marks do not affect the text after it. */
export const isolated = (text: string): string => `<bdi>${escapeHtml(text)}</bdi>`;

const STYLE = `
:root { color-scheme: light dark; --ink: #1d2329; --soft: #5d6771; --line: #d8dde2; --page: #ffffff; --card: #f6f8fa; --bad: #b3261e; --good: #1a7f4b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --soft: #9aa5af; --line: #3a434c; --page: #14181c; --card: #1d2329; --bad: #ff8a80; --good: #62d59a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1040px; padding: 24px 20px 64px; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 36px 0 8px; }
p { margin: 4px 0 8px; } .soft { color: var(--soft); } .bad { color: var(--bad); } .good { color: var(--good); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(148px, 1fr)); gap: 10px; margin: 18px 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px 12px; }
.tile b { display: block; font-size: 18px; font-variant-numeric: tabular-nums; } .tile span { color: var(--soft); font-size: 13px; }
.warn { border: 1px solid var(--bad); border-radius: 8px; padding: 10px 12px; color: var(--bad); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 5px 8px; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; } td.n, th.n { text-align: right; white-space: nowrap; } td:not(.n) { min-width: 150px; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 6px 0; padding: 8px; background: var(--card); border-radius: 6px; font-size: 12px; max-height: 320px; overflow-y: auto; }
summary { cursor: pointer; color: var(--soft); } details { display: inline-block; margin-right: 14px; vertical-align: top; } details[open] { display: block; } svg { width: 100%; min-width: 680px; height: auto; display: block; }
@media (max-width: 640px) {
  body { padding: 16px 12px 48px; } table.cards, .cards tbody, .cards tr, .cards td { display: block; }
  .cards thead { display: none; } .cards tr { border-bottom: 1px solid var(--line); padding: 6px 0; }
  .cards td, .cards td.n { border: 0; padding: 1px 0; text-align: left; white-space: normal; }
  .cards td:not(:first-child)::before, .cards td.n:first-child::before { content: attr(data-name) ": "; color: var(--soft); } .cards td:empty { display: none; }
  .cards td:first-child { font-weight: 600; }
}
`;

/**
 * Returns a complete page.
 *
 * @param body the HTML of the body
 * @param style further CSS
 */
export function htmlPage(title: string, body: string, style: string): string {
  // The page must not load or run anything, even if captured text contains links or scripts.
  const policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>${escapeHtml(title)}</title><style>${STYLE}${style}</style></head>
<body><main>${body}</main></body></html>
`;
}

export const folded = (summary: string, text: string): string =>
  text === '' ? '' : `<details><summary>${escapeHtml(summary)}</summary><pre>${escapeHtml(text)}</pre></details>`;

// ------------------------------------------------------------------------------------------------ what a page shows

const CLASSES = { bold: '', dim: 'soft', red: 'bad', green: 'good', exact: '' } as const;

/** Draws the parts of a page. Texts and cells are escaped, unless they are marked as HTML. */
export const pageHtml = (page: Page): string =>
  page
    .map(drawn)
    .filter((html) => html !== '')
    .join('\n');

function drawn(part: Part): string {
  if (!part) return '';
  if (typeof part === 'string') return `<p>${escapeHtml(part)}</p>`;
  if ('html' in part) return part.html;
  if ('facts' in part) return tiles(part.facts);
  if ('of' in part)
    return `<p class="${part.style === 'red' ? 'warn' : CLASSES[part.style ?? 'bold']}">${escapeHtml(part.of)}</p>`;
  if ('rows' in part) return part.rows.length === 0 ? '' : tableHtml(part);
  if (!('title' in part)) return pageHtml(part);
  const html = pageHtml(part.parts);
  return html === '' || part.title === '' ? html : `<section><h2>${escapeHtml(part.title)}</h2>${html}</section>`;
}

/** Tiles with large values. */
function tiles(values: readonly (readonly [name: string, value: string | number])[]): string {
  const all = values.map(
    ([name, value]) => `<div class="tile"><b>${escapeHtml(String(value))}</b><span>${escapeHtml(name)}</span></div>`,
  );
  return all.length === 0 ? '' : `<div class="tiles">${all.join('')}</div>`;
}

const cellHtml = (cell: Cell = ''): string => (typeof cell === 'string' ? escapeHtml(cell) : cell.html);

/** A narrow screen shows each row as a card, its cells below each other with their names. */
function tableHtml(shown: Table): string {
  const kinds = shown.head.map((_, at) => (isOfFigures(shown, at) ? ' class="n"' : ''));
  const names = shown.head.map(escapeHtml);
  const head = names.map((name, at) => `<th${kinds[at]}>${name}</th>`).join('');
  const body = shown.rows.map(({ style, of }) => {
    const cells = names.map((name, at) => `<td${kinds[at]} data-name="${name}">${cellHtml(of[at])}</td>`);
    return `<tr${style === undefined ? '' : ` class="${CLASSES[style]}"`}>${cells.join('')}</tr>`;
  });
  return `<div class="wide"><table class="cards"><thead><tr>${head}</tr></thead><tbody>${body.join('\n')}</tbody></table></div>`;
}

/** A part that terminals do not show, such as a chart. */
export const drawing = (html: string): Marked => ({ text: '', html });

/** A figure with its exact value, for programs that read the page. */
const exactly = (value: number, text: string): string => `<data value="${value}">${escapeHtml(text)}</data>`;

export const count = (value = 0): Marked => ({ text: whole(value), html: exactly(value, whole(value)) });

/** Returns a share, or another figure formatted by `text`, with its interval, if any. */
export function measured(of: Shown | null | undefined, text = percent): Marked {
  const figure = of ?? null;
  return { text: bracketed(figure, text), html: bracketed(figure, (value) => exactly(value, text(value))) };
}
