/** Parses the options of the benchmarks and of the soak test. */
import { parseArgs } from 'node:util';

/** `switch`: `--name`; `number`: `--name N`; `texts`: `--name TEXT`, which may be repeated. */
export type FlagKinds = Readonly<Record<string, 'switch' | 'number' | 'texts'>>;

/**
 * Parses options and refuses unknown ones, since a typo would otherwise start the full run.
 *
 * @returns the flags as `--name` and `--name=value`
 */
export function readFlags(args: readonly string[], kinds: FlagKinds): string[] {
  const options = Object.entries(kinds).map(([name, kind]) => [
    name,
    { type: kind === 'switch' ? 'boolean' : 'string', multiple: kind === 'texts' } as const,
  ]);
  try {
    const { values } = parseArgs({ args: [...args], options: Object.fromEntries(options) });
    const wrong = Object.entries(values).find(
      ([name, value]) => kinds[name] === 'number' && !/^[1-9]\d*$/.test(String(value)),
    );
    if (wrong) throw new Error(`--${wrong[0]} ${wrong[1]}, which is not a whole number of at least 1`);
    return Object.entries(values).flatMap(([name, value]) =>
      [value].flat().map((one) => (one === true ? `--${name}` : `--${name}=${one}`)),
    );
  } catch (error) {
    const expected = Object.entries(kinds).map(
      ([name, kind]) => `--${name}${{ switch: '', number: ' N', texts: ' TEXT' }[kind]}`,
    );
    throw new Error(`An option is invalid; got: ${(error as Error).message}; expected: ${expected.join(', ')}`);
  }
}

/** Returns the texts of `--name=TEXT`. */
export const textFlags = (flags: readonly string[], name: string): string[] =>
  flags.filter((flag) => flag.startsWith(`--${name}=`)).map((flag) => flag.slice(name.length + 3));

/** Returns the number of `--name=N`, or the standard one. */
export const numberFlag = (flags: readonly string[], name: string, standard: number): number =>
  Number(textFlags(flags, name)[0] ?? standard);
