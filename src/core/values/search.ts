/**
 * Returns the first integer that passes, by halving. All before it fail, all after it pass.
 *
 * @param fails an integer that fails, or is before the first
 * @param passing one that passes, or is after the last
 */
export function firstPassing(fails: number, passing: number, passes: (at: number) => boolean): number {
  let [low, high] = [fails, passing];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (passes(middle)) high = middle;
    else low = middle;
  }
  return high;
}
