/** Explains counts by the numbers of runs, files, chunks and captures, without negative shares. */

/** What a count is proportional to. */
export interface Shape {
  runs: number;
  files: number;
  chunks: number;
  captures: number;
}

export type PerUnit = Record<keyof Shape, number>;
const UNITS = ['runs', 'files', 'chunks', 'captures'] as const;
const ROUNDS = 20_000;

/** The least squares of the relative errors, by coordinate descent. Exact counts of at least four different shapes are found exactly. */
export function explain(samples: readonly { shape: Shape; count: number }[]): PerUnit {
  const found: PerUnit = { runs: 0, files: 0, chunks: 0, captures: 0 };
  const used = samples.filter(({ count }) => count > 0);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const unit of UNITS) {
      let [over, under] = [0, 0];
      for (const { shape, count } of used) {
        const rest = count - (predict(found, shape) - found[unit] * shape[unit]);
        over += (rest * shape[unit]) / count ** 2;
        under += shape[unit] ** 2 / count ** 2;
      }
      if (under > 0) found[unit] = Math.max(0, over / under);
    }
  }
  return found;
}

export const predict = (each: PerUnit, shape: Shape): number =>
  UNITS.reduce((sum, unit) => sum + each[unit] * shape[unit], 0);
