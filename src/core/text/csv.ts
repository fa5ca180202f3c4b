/** CSV. */

type Value = string | number | boolean | null | undefined;

/** Returns a cell, which is empty for `null` and `undefined`. */
const csvCell = (value: Value): string => {
  const text = value === null || value === undefined ? '' : String(value);
  // A spreadsheet would take a text that begins like this for a formula.
  const safe = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

/** Returns a line for the head, and a line for each row. */
export const csvText = (head: readonly string[], rows: readonly (readonly Value[])[]): string =>
  [head, ...rows].map((row) => `${row.map(csvCell).join(',')}\n`).join('');
