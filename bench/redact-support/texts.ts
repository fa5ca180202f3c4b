/** Harmless texts: sentences of the docs, and forms that look like an item and are none. */

import { globSync, readFileSync } from 'node:fs';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { seeded } from '../../test/helpers/planted.ts';

/** Sentences of the docs, but of the page on masking, whose examples are items. */
export const proseTexts = (): string[] =>
  globSync('docs/*.md', { cwd: packagePath(), exclude: ['docs/redaction.md'] })
    .flatMap((file) => readFileSync(packagePath(file), 'utf8').split(/(?<=[.:])\s+/))
    .filter((text) => text.length > 30 && !/@|redact|\d{3}-\d{2}|https?:/i.test(text));

/** Numbers, codes and ids as they are in support chats and logs, between such sentences. */
export function harmlessTexts(count: number): string[] {
  const random = seeded(7);
  const below = (most: number): number => Math.floor(random() * most);
  const digits = (length: number): string => Array.from({ length }, () => below(10)).join('');
  const hex = (length: number): string => Array.from({ length }, () => below(16).toString(16)).join('');
  const forms = [
    () => `Order ${digits(8)} was shipped on 2026-0${1 + below(9)}-1${below(10)} with tracking ${digits(12)}.`,
    () => `Version ${below(20)}.${below(20)}.${below(20)} fixes the error ${digits(5)} in ${below(900)} ms.`,
    () => `The request ${hex(8)}-${hex(4)}-4${hex(3)}-a${hex(3)}-${hex(12)} took ${digits(4)} ms.`,
    () =>
      `Invoice ${digits(4)}-${digits(4)}: ${digits(3)}.${digits(2)} EUR, due ${1 + below(28)}.0${1 + below(9)}.2026.`,
    () => `commit ${hex(40)} touches ${below(90)} files and ${digits(4)} lines.`,
    () => `The meeting is on ${1 + below(28)} March 2026 at ${below(12)}:${digits(2)} in room ${digits(3)}.`,
    () =>
      `Population ${digits(3)},${digits(3)},${digits(3)}; area ${digits(5)}.${digits(2)} km2; ratio 0.${digits(16)}.`,
    () => `ISBN 978-3-${digits(2)}-${digits(6)}-${below(10)}, pages ${digits(3)} to ${digits(3)}.`,
    () => `Coordinates ${below(90)}.${digits(6)}, ${below(180)}.${digits(6)}; epoch ${1.7e12 + below(1e11)}.`,
    () => `See section ${below(9)}.${below(9)}.${below(9)}.${below(9)} of the manual, std::vector and a::b::c.`,
  ];
  const prose = proseTexts();
  return Array.from({ length: count }, (_, at) =>
    at % 2 === 0 ? (forms[(at / 2) % forms.length]?.() ?? '') : (prose[below(prose.length)] ?? ''),
  );
}
