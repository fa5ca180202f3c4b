/** Numbers as options of the commands. */
import { InvalidArgumentError } from 'commander';

export const number = (text: string): number => {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('a number is needed');
  return value;
};

/** Of money. */
export const amount = (text: string): number => {
  const value = number(text);
  if (value < 0) throw new InvalidArgumentError('a number of 0 or more is needed');
  return value;
};
