/** Names of the version before, which work until the next one, and what they are now. The next version removes this file. */

type Names = Readonly<Record<string, string>>;

const COMMANDS = new Map([
  ['follow', 'show --follow'],
  ['quarantine', 'show --lines'],
  ['rebuild-counts', 'rates --rebuild'],
]);

const REPLAYS: Names = { '--judge-budget-usd': '--budget', '--output': '--out' };
const OPTIONS: Readonly<Record<string, Names>> = {
  calibrate: { '--budget-usd': '--budget', '--judge': '--judged-by', '--model': '--judge-model' },
  compare: REPLAYS,
  dataset: { '--where': '--filter' },
  doctor: { '--model': '--judge-model' },
  judge: { '--judge': '--judge-model', '--model': '--judge-model', '--threshold': '--at-least' },
  replay: REPLAYS,
};

/** Replaces old names in the arguments of a command line. @returns a note for each, too */
export function withNewNames(given: readonly string[]): { args: string[]; notes: string[] } {
  const notes: string[] = [];
  const renamed = (old: string, now: string | undefined): string => {
    if (now !== undefined) notes.push(`${old} is now ${now}; the old name works until the next version`);
    return now ?? old;
  };
  const at = given.findIndex((arg) => !arg.startsWith('-'));
  const names = OPTIONS[given[at] ?? ''];
  const args = given.flatMap((arg, index) => {
    // `judge --judge real` said what is the default.
    const isReal = (one: number): boolean => given[one] === '--judge' && given[one + 1] === 'real';
    if (names === OPTIONS.judge && (arg === '--judge=real' || isReal(index) || isReal(index - 1))) return [];
    if (index === at) return renamed(arg, COMMANDS.get(arg)).split(' ');
    const [name = '', ...value] = arg.split('=');
    return [renamed(name, names?.[name]), ...value].join('=');
  });
  return { args, notes };
}
