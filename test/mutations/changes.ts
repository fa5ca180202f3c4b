/** The changes that the mutations make to the sources. */

export interface Change {
  file: string;
  /** From 0. */
  line: number;
  what: string;
  after: string;
}

const OPPOSITES: Record<string, string> = { '<': '>=', '<=': '>', '>': '<=', '>=': '<', '===': '!==', '!==': '===' };

const KINDS: readonly { what: string; place: RegExp; change(found: string): string }[] = [
  { what: 'flip a comparison', place: /(?<= )(?:[<>]=?|[!=]==)(?= )/g, change: (found) => OPPOSITES[found] ?? found },
  { what: 'negate a condition', place: /(?<=\bif \().+(?=\) )/g, change: (found) => `!(${found})` },
  { what: 'drop a statement', place: /(?<=^ +)(?:await )?[\w.#]+(?:\(.*\)| [-+]?= .+);$/g, change: () => ';' },
  {
    what: 'change a number',
    place: /(?<![\w.'-])\d[\d_]*(?![\w.'])/g,
    change: (found) => String(Number(found.replaceAll('_', '')) + 1),
  },
];

/** Comments, imports and types have no behavior. */
const WITHOUT_BEHAVIOR = /^\s*(?:\/[/*]|\*|import |export \*|(?:export )?(?:type|interface) )/;

/** Returns all changes that can be made to one line of a source file. */
export function changesOf(file: string, text: string): Change[] {
  const found: Change[] = [];
  for (const [line, before] of text.split('\n').entries()) {
    if (WITHOUT_BEHAVIOR.test(before)) continue;
    for (const { what, place, change } of KINDS) {
      for (const { 0: part, index } of before.matchAll(place)) {
        const after = before.slice(0, index) + change(part) + before.slice(index + part.length);
        found.push({ file, line, what, after });
      }
    }
  }
  return found;
}
