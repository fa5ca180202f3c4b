/** Parses numeric options of the commands. */
import { InvalidArgumentError } from 'commander';

export const number = (text: string): number => {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('expected a number');
  return value;
};

/** Parses an amount of money. */
export const amount = (text: string): number => {
  const value = number(text);
  if (value < 0) throw new InvalidArgumentError('expected a number of 0 or more');
  return value;
};

/** Parses a share of a whole. */
export const share = (text: string): number => {
  const value = number(text);
  if (value < 0 || value > 1) throw new InvalidArgumentError('expected a number from 0 to 1');
  return value;
};

/** Parses a number to count with, from 1. */
export const wholeNumberOption = (text: string): number => {
  const value = number(text);
  if (!Number.isSafeInteger(value) || value < 1) throw new InvalidArgumentError('expected a whole number of 1 or more');
  return value;
};

/** Parses a number to count with, within bounds. */
export const countWithin =
  (least: number, most: number) =>
  (text: string): number => {
    const value = number(text);
    if (Number.isInteger(value) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`expected a whole number from ${least} to ${most}`);
  };
