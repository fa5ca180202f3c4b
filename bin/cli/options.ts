/** Declares commands. The types of a command's flags follow from the declarations of its options. */
import { Command, InvalidArgumentError, Option } from 'commander';
import { columnsOf, wrappedText } from '../../src/core/text/terminal-text.ts';

type Camel<S extends string> = S extends `${infer A}-${infer B}` ? `${A}${Capitalize<Camel<B>>}` : S;
type Word<F extends string> = F extends `${string}--${infer W}` ? (W extends `${infer Name} ${string}` ? Name : W) : F;
/** `-o, --out-dir <path>` gives `outDir`, and `--no-report` gives `report`. */
type FlagName<F extends string> = Camel<Word<F> extends `no-${infer Name}` ? Name : Word<F>>;
type Given<F extends string> = F extends `${string}...>`
  ? string[]
  : F extends `${string}<${string}`
    ? string
    : F extends `${string}[${string}`
      ? string | true
      : boolean;

/** An option, with the flag that it gives. */
interface Declared<Flag> extends Option {
  /** Of the type alone. */
  readonly gives?: Flag;
}

interface How<V> {
  choices?: readonly V[];
  /** Of an option that may be repeated, with what is there. */
  parse?(text: string, before: V | undefined): V;
}

type Maybe<F extends string, V> = { [K in FlagName<F>]?: V };
type Always<F extends string, V> = { [K in FlagName<F>]: V };

/** Declares an option. With an initial value, or if it is required, its flag is never absent. */
export function option<const F extends string, const V = Given<F>>(
  flags: F,
  text: string,
  how: How<V> & ({ initial: NoInfer<V> } | { required: true }),
): Declared<Always<F, V>>;
export function option<const F extends `--no-${string}`>(flags: F, text: string): Declared<Always<F, boolean>>;
export function option<const F extends string, const V = Given<F>>(
  flags: F,
  text: string,
  how?: How<V>,
): Declared<Maybe<F, V>>;
export function option<V>(flags: string, text: string, how: How<V> & { initial?: V; required?: true } = {}): Option {
  const made = new Option(flags, text);
  if (how.choices) made.choices(how.choices.map(String));
  if (how.parse) made.argParser(how.parse);
  if ('initial' in how) made.default(how.initial);
  return made.makeOptionMandatory(how.required ?? false);
}

/** Keeps the types of the single options. */
export const options = <O extends readonly Option[]>(...all: O): O => all;

type Taking<O> = O extends Declared<infer Flag> ? (flag: Flag) => void : never;
/** The flags of a command, by its options. */
export type FlagsOf<O extends readonly Option[]> = Taking<O[number]> extends (flag: infer All) => void ? All : never;

/** Makes a command. @param help paragraphs, and examples */
export function command(name: string, all: readonly Option[], help: string): Command {
  const made = new Command(name);
  for (const each of all) made.addOption(each);
  return made.addHelpText('after', ({ error }) => helpText(help, columnsOf(error ? process.stderr : process.stdout)));
}

/** Breaks help at a width. What is indented stays as it is, line by line. */
const helpText = (help: string, width: number): string =>
  help
    .split('\n\n')
    .map((part) =>
      wrappedText(part.includes('\n  ') ? part.split('\n') : [part.trim().replaceAll('\n', ' ')], width, 0),
    )
    .map((part, index) => (index === 0 ? `\n${part.trimStart()}` : part))
    .join('\n')
    .trimEnd();

// --------------------------------------------------------------------------------------------------------- numbers

/** Parses a number. */
export const number = (text: string): number => {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('expected a number');
  return value;
};

/** Returns a parser of numbers of which some are allowed. @param expected ends `expected …` */
const numberIf =
  (isAllowed: (value: number) => boolean, expected: string) =>
  (text: string): number => {
    const value = number(text);
    if (isAllowed(value)) return value;
    throw new InvalidArgumentError(`expected ${expected}`);
  };

/** Parses an amount of money. */
export const amount = numberIf((value) => value >= 0, 'a number of 0 or more');

/** Parses a share of a whole. */
export const share = numberIf((value) => value >= 0 && value <= 1, 'a number from 0 to 1');

/** Parses a number to count with. */
export const wholeNumber = numberIf(
  (value) => Number.isSafeInteger(value) && value >= 1,
  'a whole number of 1 or more',
);

/** Parses a number to count with, within bounds. */
export const countWithin = (least: number, most: number) =>
  numberIf(
    (value) => Number.isInteger(value) && value >= least && value <= most,
    `a whole number from ${least} to ${most}`,
  );

/** Collects the values of an option that may be repeated. */
export const collected = (text: string, before: string[] = []): string[] => [...before, text];
