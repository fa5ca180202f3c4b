/**
 * The distributions that intervals and tests need. Checked against SciPy: relative error below 1e-10. Why not a library is in
 * docs/decisions/0070-one-statistics-module.md.
 */

/** The 97.5% quantile of the normal distribution: 95% of the values are within ± this. */
export const Z_95 = 1.959963984540054;

const { abs, exp, log, log1p, max, min, PI, sqrt } = Math;

const normalDensity = (x: number): number => exp((-x * x) / 2) / sqrt(2 * PI);

/** Returns P(X ≤ x) of the standard normal distribution. Abramowitz and Stegun (1964), 26.2.11 and 26.2.14. */
export function normalCdf(x: number): number {
  if (abs(x) < 3) {
    let term = x;
    let sum = x;
    for (let k = 3; abs(term) > 1e-17 * abs(sum); k += 2) {
      term *= (x * x) / k;
      sum += term;
    }
    return 0.5 + normalDensity(x) * sum;
  }
  let fraction = abs(x);
  for (let k = 100; k > 0; k -= 1) fraction = abs(x) + k / fraction;
  const tail = normalDensity(x) / fraction;
  return x < 0 ? tail : 1 - tail;
}

/**
 * Returns the x with P(X ≤ x) = p of the standard normal distribution: the approximation 26.2.23 of Abramowitz and Stegun
 * (1964), refined by Halley's method.
 */
export function normalQuantile(p: number): number {
  if (p <= 0 || p >= 1) return p === 0 ? -Infinity : p === 1 ? Infinity : Number.NaN;
  if (p > 0.5) return -normalQuantile(1 - p);
  const t = sqrt(-2 * log(p));
  let x = -t + (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  for (let step = 0; step < 3; step += 1) {
    const error = (normalCdf(x) - p) / normalDensity(x);
    x -= error / (1 + (x * error) / 2);
  }
  return x;
}

/** Returns by how much ln Γ(z) exceeds Stirling's formula (z − ½) ln z − z + ½ ln 2π. */
function stirlingResidual(z: number): number {
  if (z < 10) return stirlingResidual(z + 1) + (z + 0.5) * log1p(1 / z) - 1;
  const w = 1 / (z * z);
  return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w * (1 / 1188 - (w * 691) / 360_360))))) / z;
}

/** Returns x^a (1 − x)^b / B(a, b), without the cancellation between large logarithms (Loader 2000). */
function betaPower(x: number, a: number, b: number): number {
  const s = a + b;
  const powers = a * log((x * s) / a) + b * log(((1 - x) * s) / b);
  return exp(
    powers + stirlingResidual(s) - stirlingResidual(a) - stirlingResidual(b) + log((a * b) / (2 * PI * s)) / 2,
  );
}

/** Returns the continued fraction of the incomplete beta function, DLMF 8.17.22, by Lentz's method. */
function betaFraction(x: number, a: number, b: number): number {
  const kept = (value: number): number => (abs(value) < 1e-300 ? 1e-300 : value);
  let c = 1;
  let d = 1 / kept(1 - ((a + b) * x) / (a + 1));
  let found = d;
  for (let m = 1; m < 20_000; m += 1) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / kept(1 + even * d);
    c = kept(1 + even / c);
    found *= d * c;
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / kept(1 + odd * d);
    c = kept(1 + odd / c);
    found *= d * c;
    if (abs(d * c - 1) < 1e-15) break;
  }
  return found;
}

/** Returns P(X ≤ x) of the beta distribution with the shapes a and b: the regularized incomplete beta function. */
export function betaCdf(x: number, a: number, b: number): number {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  // Beyond its mean, the fraction converges slowly, and the fraction of the other tail quickly.
  return x > (a + 1) / (a + b + 2)
    ? 1 - (betaPower(1 - x, b, a) / b) * betaFraction(1 - x, b, a)
    : (betaPower(x, a, b) / a) * betaFraction(x, a, b);
}

/** Returns the x with P(X ≤ x) = p of the beta distribution, by Newton's method within a shrinking bracket. */
export function betaQuantile(p: number, a: number, b: number): number {
  if (p <= 0 || p >= 1) return p <= 0 ? 0 : 1;
  let low = 0;
  let high = 1;
  let x = a / (a + b);
  for (let step = 0; step < 200; step += 1) {
    const excess = betaCdf(x, a, b) - p;
    if (excess > 0) high = x;
    else low = x;
    const newton = x - (excess * x * (1 - x)) / betaPower(x, a, b);
    const next = newton > low && newton < high ? newton : (low + high) / 2;
    if (abs(next - x) <= 1e-14 * min(next, x)) return next;
    x = next;
  }
  return x;
}

/** Returns P(X = k) of the binomial distribution of n trials with probability p (Loader 2000). */
export function binomialProbability(k: number, n: number, p: number): number {
  if (k < 0 || k > n) return 0;
  if (p <= 0 || p >= 1) return k === (p <= 0 ? 0 : n) ? 1 : 0;
  if (k === 0) return exp(n * log1p(-p));
  if (k === n) return exp(n * log(p));
  return (betaPower(p, k, n - k) * n) / (k * (n - k));
}

/** Returns P(X ≤ k) of the binomial distribution of n trials with probability p. */
export function binomialCdf(k: number, n: number, p: number): number {
  if (k < 0 || k >= n) return k < 0 ? 0 : 1;
  return betaCdf(1 - max(0, min(1, p)), n - k, k + 1);
}

/** Returns the x with P(X ≤ x) = p of Student's t distribution. */
export function studentQuantile(p: number, degrees: number): number {
  if (degrees === Infinity) return normalQuantile(p);
  if (p > 0.5) return -studentQuantile(1 - p, degrees);
  const x = betaQuantile(2 * p, degrees / 2, 0.5);
  return -sqrt((degrees * (1 - x)) / x);
}

/** Returns P(X ≤ x) of Student's t distribution for x ≤ 0; of the normal one with infinite degrees of freedom. */
export const lowerTail = (x: number, degrees: number): number =>
  Number.isFinite(degrees) ? betaCdf(degrees / (degrees + x * x), degrees / 2, 0.5) / 2 : normalCdf(x);

/** Returns ln Γ(z) for z > 0, by Stirling's formula. */
const logGamma = (z: number): number => (z - 0.5) * log(z) - z + log(2 * PI) / 2 + stirlingResidual(z);
const logBeta = (a: number, b: number): number => logGamma(a) + logGamma(b) - logGamma(a + b);

/**
 * Returns P(X ≥ x) of the beta-binomial distribution: n trials whose probability has a beta distribution with the
 * shapes a and b. x and n may be fractions: the sum is over x, x + 1 and so on up to n.
 */
export function betaBinomialTail(x: number, n: number, a: number, b: number): number {
  if (x <= 0 || x > n) return x <= 0 ? 1 : 0;
  // The smaller tail is summed; where that is the lower one, the two make 1.
  if (x <= (n * a) / (a + b)) return max(0, 1 - betaBinomialTail(n - x + 1, n, b, a));
  let term = exp(logBeta(x + a, n - x + b) - logBeta(a, b) - log(n + 1) - logBeta(x + 1, n - x + 1));
  let total = term;
  for (let k = x; k + 1 <= n && term > 1e-9 * total; k += 1) {
    term *= ((n - k) * (k + a)) / ((k + 1) * (n - k - 1 + b));
    total += term;
  }
  return min(1, total);
}
