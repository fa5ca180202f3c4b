/** Declares commands. The types of a command's parameters follow from the declarations of its arguments and options. */
import { pathToFileURL } from 'node:url';
import { Argument, Command, InvalidArgumentError, Option } from 'commander';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { programArgs } from '../../src/core/process/package-folder.ts';
import { block, pageText } from '../../src/core/text/page.ts';
import { columnsOf, flagText, PLAIN } from '../../src/core/text/terminal-text.ts';
import { DEFAULT_JUDGE_BUDGET_USD } from '../../src/replay/derived-options.ts';
import HELP from '../help.json' with { type: 'json' };

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

/** The flag that an option or an argument gives. It is of the type alone. */
interface Gives<Flag> {
  readonly gives?: Flag;
}
type Declared<Flag> = Option & Gives<Flag>;
type Param = Option | Argument;

/** Parser of an option that may be repeated, given the previous value. */
type Parse<V> = (text: string, before: V | undefined) => V;

interface How<V> {
  choices?: readonly V[];
  parse?: Parse<V>;
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
  how?: How<V> | Parse<V>,
): Declared<Maybe<F, V>>;
export function option<V>(
  flags: string,
  text: string,
  given: (How<V> & { initial?: V; required?: true }) | Parse<V> = {},
): Option {
  const how = typeof given === 'function' ? { parse: given } : given;
  const made = new Option(flags, text);
  if (how.choices) made.choices(how.choices.map(String));
  if (how.parse) made.argParser(how.parse);
  if ('initial' in how) made.default(how.initial);
  return made.makeOptionMandatory(how.required ?? false);
}

/** Parser for an option with an initial value. */
export const parsed = <V>(parse: Parse<V>, initial: NoInfer<V>) => ({ parse, initial });

/** The values that an option may have, one of which is there from the beginning. */
export const oneOf = <const V>(choices: readonly V[], initial: NoInfer<V>) => ({ choices, initial });

type ArgumentOf<F extends string> = F extends `[${infer Name}...]`
  ? { [K in Name]: string[] }
  : F extends `<${infer Name}>`
    ? { [K in Name]: string }
    : F extends `[${infer Name}]`
      ? { [K in Name]: string | undefined }
      : never;

/** Declares an argument: `<name>`, or `[name]`, which may be absent. Its value is among the flags, by its name. */
export const argument = <const F extends `<${string}>` | `[${string}]`>(
  name: F,
  text: string,
): Argument & Gives<ArgumentOf<F>> => new Argument(name, text);

/** Keeps the types of the single options. */
export const options = <O extends readonly Param[]>(...all: O): O => all;

type Taking<O> = O extends Gives<infer Flag> ? (flag: Flag) => void : never;
/** The flags of a command, by its options and arguments. */
export type FlagsOf<O extends readonly Param[]> = Taking<O[number]> extends (flag: infer All) => void ? All : never;

/**
 * Declares a command, whose help is in `help.json`.
 *
 * @param said texts by the names in braces in the help
 *
 * @example
 *     export default command('runs', OPTIONS, async (flags) => print(await runs(flags), flags.json, page));
 */
export const command =
  <const O extends readonly Param[]>(
    name: keyof typeof HELP,
    all: O,
    run: (flags: FlagsOf<O>) => Promise<void>,
    said: Readonly<Record<string, string>> = {},
  ) =>
  (): Command => {
    const made = new Command(name);
    for (const each of all) each instanceof Option ? made.addOption(each) : made.addArgument(each);
    const given = () => made.registeredArguments.map((one, index) => [one.name(), made.processedArgs[index]]);
    return made
      .action(() => run({ ...made.opts(), ...Object.fromEntries(given()) } as FlagsOf<O>))
      .addHelpText('after', ({ error }) =>
        helpText(HELP[name], said, columnsOf(error ? process.stderr : process.stdout)),
      );
  };

/** Declares a command that passes on its arguments. */
export const passingOn = (name: keyof typeof HELP, run: (given: readonly string[]) => Promise<void>) => () =>
  command(name, options(argument('[options...]', 'passed on')), (given) => run(given.options))().allowUnknownOption();

/** Runs another program of the package in this process, which Ctrl-C reaches alone. @param built its name in `dist/` */
export async function runInPlace(source: string, built: string, given: readonly string[]): Promise<void> {
  process.argv.splice(2, Infinity, ...given);
  await import(pathToFileURL(programArgs(source, built).at(-1) ?? '').href);
}

const isGiven = (value: unknown): boolean =>
  Array.isArray(value) ? value.length > 0 : value !== undefined && value !== false;

/**
 * Refuses options that have no effect: to use them is a mistake that would otherwise go unnoticed.
 *
 * @param needs by option, the others of which it needs one
 * @throws PermanentError `OptionsContradict`
 */
export function refuseUseless<F extends object>(flags: F, needs: Partial<Record<keyof F, readonly (keyof F)[]>>): void {
  for (const [flag, others] of Object.entries(needs) as [keyof F, readonly (keyof F)[]][]) {
    if (!isGiven(flags[flag]) || others.some((one) => isGiven(flags[one]))) continue;
    const needed = others.map((one) => flagText(String(one))).join(' or ');
    const text = flagText(String(flag));
    const facts = { got: text, expected: `${text} with ${needed}` };
    throw new PermanentError('OptionsContradict', `${text} has no effect without ${needed}`, facts);
  }
}

/** Breaks the paragraphs and lists of help at a width. */
function helpText(help: readonly (string | string[])[], said: Readonly<Record<string, string>>, width: number): string {
  const filled = (line: string): string => line.replace(/\{(\w+)\}/g, (hole, name: string) => said[name] ?? hole);
  const page = help.map((lines) => block(...[lines].flat().map(filled)));
  return `\n${pageText(page, { width, style: PLAIN })}`.trimEnd();
}

export const judgeModelOption = () => option('--judge-model <id>', 'the judge to ask (default: BEDROCK_MODEL_ID)');
export const JUDGE_BUDGET = 'the most to spend on the judge; 0: no limit';

/** Options of the commands that compare replies. */
export const judgingOptions = (what: string) =>
  options(
    option('--judge', `${what}ask the judge which reply is better, in both orders`),
    judgeModelOption(),
    option('--budget <dollars>', `${JUDGE_BUDGET} (default: ${DEFAULT_JUDGE_BUDGET_USD})`, numbers.amount),
  );

// --------------------------------------------------------------------------------------------------------- numbers

/** Returns a parser of numbers of which some are allowed. @param expected ends `expected …` */
const numberIf =
  (expected: string, isAllowed: (value: number) => boolean) =>
  (text: string): number => {
    const value = Number(text);
    if (text.trim() !== '' && Number.isFinite(value) && isAllowed(value)) return value;
    throw new InvalidArgumentError(`expected ${expected}`);
  };

/** Parsers of numbers. */
export const numbers = {
  any: numberIf('a number', () => true),
  amount: numberIf('a number of 0 or more', (value) => value >= 0),
  share: numberIf('a number from 0 to 1', (value) => value >= 0 && value <= 1),
  count: numberIf('a whole number of 1 or more', (value) => Number.isSafeInteger(value) && value >= 1),
  from: (least: number, most: number) =>
    numberIf(
      `a whole number from ${least} to ${most}`,
      (value) => Number.isInteger(value) && value >= least && value <= most,
    ),
  /** A budget that must not be 0. */
  spending: numberIf('a number over 0; to judge nothing: --no-evaluate', (value) => value > 0),
};

/** Collects the values of an option that may be repeated. */
export const collected = (text: string, before: string[] = []): string[] => [...before, text];
