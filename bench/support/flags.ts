/** A whole number given as `--name N`, for a quicker run than the standard one. */
export function numberFlag(flags: readonly string[], name: string, standard: number): number {
  const at = flags.indexOf(`--${name}`);
  if (at === -1) return standard;
  const value = Number(flags[at + 1]);
  if (Number.isInteger(value) && value > 0) return value;
  throw new Error(`--${name} is not a number; got: ${flags[at + 1]}; expected: a whole number from 1`);
}
