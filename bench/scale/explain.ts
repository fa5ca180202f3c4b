/** Explains counts by the numbers of runs, files, chunks and captures, without negative shares. */

/** What a count is proportional to. */
export interface Shape {
  runs: number;
  files: number;
  chunks: number;
  captures: number;
  /** Captures that are judged in runs of several chunks, which claim each question. Absent: what is counted does not depend on it. */
  claimed?: number;
  /** Of the functions that process chunks: some calls are made as long as they run. Absent, as above. */
  seconds?: number;
}

type Optional = 'claimed' | 'seconds';
export type PerUnit = Omit<Record<keyof Shape, number>, Optional> & { [Unit in Optional]?: number };
const UNITS = ['runs', 'files', 'chunks', 'captures', 'claimed', 'seconds'] as const;
const ROUNDS = 20_000;

/** The least squares of the relative errors, by coordinate descent. Exact counts of at least four different shapes are found exactly. */
export function explain(samples: readonly { shape: Shape; count: number }[]): PerUnit {
  const found: Required<PerUnit> = { runs: 0, files: 0, chunks: 0, captures: 0, claimed: 0, seconds: 0 };
  const used = samples.filter(({ count }) => count > 0);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const unit of UNITS) {
      let [over, under] = [0, 0];
      for (const { shape, count } of used) {
        const size = shape[unit] ?? 0;
        const rest = count - (predict(found, shape) - found[unit] * size);
        over += (rest * size) / count ** 2;
        under += size ** 2 / count ** 2;
      }
      if (under > 0) found[unit] = Math.max(0, over / under);
    }
  }
  return found;
}

export const predict = (each: PerUnit, shape: Shape): number =>
  UNITS.reduce((sum, unit) => sum + (each[unit] ?? 0) * (shape[unit] ?? 0), 0);
