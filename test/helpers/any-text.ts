/** Any Unicode text, as `fc.string({ unit: 'binary' })`, which takes a second for a table of all characters in each suite. */
import fc from 'fast-check';

const FIRST_SURROGATE = 0xd800;
const SURROGATES = 0x800;

const character = fc.nat({ max: 0x10ffff - SURROGATES }).map(
  (nth) => String.fromCodePoint(nth < FIRST_SURROGATE ? nth : nth + SURROGATES),
  (text) => {
    const [first = '', second] = text as string;
    const code = first.codePointAt(0);
    if (code === undefined || second !== undefined || !first.isWellFormed()) throw new Error('It is no character');
    return code < FIRST_SURROGATE ? code : code - SURROGATES;
  },
);

export const anyText = (lengths: { minLength?: number; maxLength?: number } = {}): fc.Arbitrary<string> =>
  fc.string({ ...lengths, unit: character });
