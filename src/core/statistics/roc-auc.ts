/**
 * The area under the ROC curve: the probability that a case of a class has a higher score for the class than a case of
 * another class.
 */
import { firstPassing } from '../values/search.ts';
import { sum } from '../values/sum.ts';
import { studentQuantile, Z_95 } from './distributions.ts';
import { type Estimate, scoreInterval } from './share.ts';

/** The scores of cases. */
interface Scores {
  /** A row for each case, with a score for each class. */
  values: Float64Array;
  /** Number of scores in a row. */
  width: number;
  /** The position of each case's class in its row; `width` or more for a class that has no scores. */
  labels: Uint16Array;
}

/** The area of one class against all others. */
type ClassArea = NonNullable<ReturnType<typeof areaOf>>;

/** Added to the spread of few cases, so that a sample that is separated by chance does not look certain. */
const PSEUDO_CASES = 0.15;

/** Returns twice the number of sorted values below x. Values equal to x count once. */
const halvesBelow = (sorted: Float64Array, x: number): number =>
  firstPassing(-1, sorted.length, (at) => (sorted[at] as number) >= x) +
  firstPassing(-1, sorted.length, (at) => (sorted[at] as number) > x);

const shareBelow = (sorted: Float64Array, x: number): number => halvesBelow(sorted, x) / (2 * sorted.length);

/**
 * Computes the area of a class. Ties count half.
 *
 * @param influence receives each case's part in the error of the area: the structural components of DeLong and others
 *   (1988)
 * @returns `null` if all cases or no cases are of the class
 */
function areaOf({ values, width, labels }: Scores, at: number, influence: Float64Array) {
  let positives = 0;
  for (const label of labels) if (label === at) positives += 1;
  const negatives = labels.length - positives;
  if (positives === 0 || negatives === 0) return null;
  const [inside, outside] = [new Float64Array(positives), new Float64Array(negatives)];
  let [i, o] = [0, 0];
  for (let row = 0; row < labels.length; row += 1) {
    const score = values[row * width + at] as number;
    if (labels[row] === at) inside[i++] = score;
    else outside[o++] = score;
  }
  inside.sort();
  outside.sort();
  // Count in whole numbers, so that scores that separate the classes have an area of exactly 1.
  let halves = 0;
  for (const score of inside) halves += halvesBelow(outside, score);
  const area = halves / (2 * positives * negatives);
  const scale = (n: number): number => 1 / Math.sqrt(n * Math.max(1, n - 1));
  const [ofInside, ofOutside] = [scale(positives), scale(negatives)];
  for (let row = 0; row < labels.length; row += 1) {
    const score = values[row * width + at] as number;
    const term =
      labels[row] === at
        ? (shareBelow(outside, score) - area) * ofInside
        : (1 - shareBelow(inside, score) - area) * ofOutside;
    influence[row] = (influence[row] as number) + term;
  }
  return { area, positives, negatives };
}

/** Returns Newcombe's interval (2006, method 5), which needs no spread of the scores: for classes that they separate completely. */
function newcombe({ area, positives, negatives }: ClassArea): Estimate {
  const star = (positives + negatives) / 2 - 1;
  const spread = (x: number): number =>
    (x * (1 - x) * (1 + (star * (1 - x)) / (2 - x) + (star * x) / (1 + x))) / (positives * negatives);
  const end = (outermost: number): number => {
    let [inside, outside] = [area, outermost];
    for (let step = 0; step < 60; step += 1) {
      const middle = (inside + outside) / 2;
      if ((middle - area) ** 2 > Z_95 ** 2 * spread(middle)) outside = middle;
      else inside = middle;
    }
    return (inside + outside) / 2;
  };
  return { value: area, low: area === 0 ? 0 : end(0), high: area === 1 ? 1 : end(1) };
}

/**
 * Computes the mean of the areas of some classes, each against all others (one-vs-rest, macro). For a single class,
 * this is its area.
 *
 * The variance is DeLong's, with the covariance of the classes. The interval is Wilson's, at the number of cases for
 * which a share would have that variance, with Student's t if a class has few cases. It assumes independent cases.
 *
 * @param classes positions of scores
 * @returns `null` if, for one of the classes, all cases or no cases are of it
 */
export function rocAuc(scores: Scores, classes: readonly number[]): Estimate | null {
  const { labels, width } = scores;
  const influence = new Float64Array(labels.length);
  const found = classes.map((at) => areaOf(scores, at, influence));
  const areas = found.filter((area) => area !== null);
  if (areas.length === 0 || areas.length < classes.length) return null;
  const value = sum(areas.map(({ area }) => area)) / areas.length;
  if (value <= 0 || value >= 1) {
    const ends = areas.map(newcombe);
    return {
      value,
      low: sum(ends.map(({ low }) => low)) / ends.length,
      high: sum(ends.map(({ high }) => high)) / ends.length,
    };
  }
  // Split by the class of the case, because the cases of the rarest class decide how certain the spread itself is.
  const spreads = new Float64Array(width + 1);
  const cases = new Float64Array(width + 1);
  for (let row = 0; row < labels.length; row += 1) {
    const label = Math.min(width, labels[row] as number);
    spreads[label] = (spreads[label] as number) + ((influence[row] as number) / areas.length) ** 2;
    cases[label] = (cases[label] as number) + 1;
  }
  const pseudo = areas.map(
    ({ area, positives, negatives }) => PSEUDO_CASES * (0.5 - area) ** 2 * (positives ** -2 + negatives ** -2),
  );
  const variance = sum([...spreads]) + sum(pseudo) / areas.length ** 2;
  const certainty = sum([...spreads].map((spread, label) => spread ** 2 / Math.max(1, (cases[label] as number) - 1)));
  const degrees = certainty === 0 ? labels.length : Math.max(1, variance ** 2 / certainty);
  return scoreInterval(value, (value * (1 - value)) / variance, -studentQuantile(0.025, degrees));
}
