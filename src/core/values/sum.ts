export const sum = (numbers: Iterable<number>): number => [...numbers].reduce((total, number) => total + number, 0);
